// The model's file, as model/sampling/kernel_file.py writes it: safetensors in the kernel's order, those of the class head, and
// one entry of metadata.

const DAMAGED = "The model's file is damaged or was cut off: load it again.";

export type ShapeName =
  | "height" | "width" | "channels" | "layers" | "heads" | "key_width" | "value_width"
  | "first" | "step_bytes" | "predicts" | "blocks" | "causal_conv";

/** How the class head reads pictures: see the files of model/ that are named in device/reading. */
export interface ReadingFile {
  layers: number[]; // of FeatureShape, as the next one
  cells: number;
  cleaning: Cleaning | null;
  typical: Typical | null;
  levels: number[]; // of its quantiles
}

export interface Cleaning {
  ground: number; // 0 or 255
  stroke: number;
  frame: { size: number; row: number; column: number } | null;
}

export interface Typical {
  images: number;
  noisy: number;
  bits_per_dim: number[];
  bits_per_grey: number[];
}

export type HeadPart = "matrix" | "bias" | "mean" | "scale" | "temperature" | "strange" | "quantiles";

export interface ModelFile {
  abi: number; // of the kernel that it is for
  shape: Record<ShapeName, number>; // and more, in the order of abi.h
  weights: number; // how the kernel stores them: a WeightType of packing.h
  first_byte_histogram: number[] | null; // of a model without a start token
  precision: string;
  digest: string; // of what the kernel paints, hexadecimal
  coding: string; // likewise of its codes
  reading: ReadingFile | null; // without a class head
  tensors: Float32Array[];
  head: Partial<Record<HeadPart, Float32Array>>;
}

const OF_HEAD = "head.";

/** Reads a file; throws one sentence where it is not whole. */
export function readModelFile(file: ArrayBuffer): ModelFile {
  try {
    const length = Number(new DataView(file).getBigUint64(0, true));
    const { __metadata__: metadata, ...entries } = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length)));
    const names = Object.keys(entries).sort();
    const isOfHead = (name: string) => name.startsWith(OF_HEAD);
    const tensorOf = (name: string) => {
      const { dtype, data_offsets: [start, end] } = entries[name];
      const size = dtype === "F16" ? 2 : 4;
      const place = [file, 8 + length + start, (end - start) / size] as const;
      return size === 2 ? widened(new Uint16Array(...place)) : new Float32Array(...place);
    };
    const head = names.filter(isOfHead).map((name) => [name.slice(OF_HEAD.length), tensorOf(name)] as const);
    const tensors = names.filter((name) => !isOfHead(name)).map(tensorOf);
    return { ...JSON.parse(metadata.scanline), tensors, head: Object.fromEntries(head) };
  } catch {
    throw new Error(DAMAGED);
  }
}

/** float16 numbers as float32. */
function widened(halves: Uint16Array): Float32Array {
  const numbers = new Float32Array(halves.length);
  for (let i = 0; i < numbers.length; i++) {
    const half = halves[i]!;
    const fraction = half & 1023;
    const exponent = (half >> 10) & 31; // none is infinite: a model is not loaded with such weights
    const size = exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
    numbers[i] = half >> 15 ? -size : size;
  }
  return numbers;
}
