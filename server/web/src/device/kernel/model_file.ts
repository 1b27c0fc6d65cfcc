// The model's file, as model/formats/kernel_file.py writes it: safetensors in the kernel's order, and one entry of metadata.

const DAMAGED = "The model's file is damaged or was cut off: load it again.";

export type ShapeName =
  | "height" | "width" | "channels" | "layers" | "heads" | "key_width" | "value_width"
  | "first" | "step_bytes" | "blocks" | "causal_conv";

export interface ModelFile {
  abi: number; // of the kernel that it is for
  shape: Record<ShapeName, number>; // and more, in the order of abi.h
  weights: number; // how the kernel stores them: a WeightType of packing.h
  first_byte_histogram: number[] | null; // of a model without a start token
  precision: string;
  coding: string; // the digest of its codes, hexadecimal
  tensors: Float32Array[];
}

/** Reads a file; throws one sentence where it is not whole. */
export function readModelFile(file: ArrayBuffer): ModelFile {
  try {
    const length = Number(new DataView(file).getBigUint64(0, true));
    const { __metadata__: metadata, ...entries } = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length)));
    const names = Object.keys(entries).sort();
    const tensors = names.map((name) => {
      const { dtype, data_offsets: [start, end] } = entries[name];
      const size = dtype === "F16" ? 2 : 4;
      const place = [file, 8 + length + start, (end - start) / size] as const;
      return size === 2 ? widened(new Uint16Array(...place)) : new Float32Array(...place);
    });
    return { ...JSON.parse(metadata.scanline), tensors };
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
