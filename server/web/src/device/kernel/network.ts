// A model in the kernel's memory, and slots of it: the structs of kernels/cpu/abi.h.

import { Block, type Kernel } from "./kernel";
import type { ModelFile } from "./model_file";

const BEYOND = 3; // pixels kept beyond a row, as in kernels/__init__.py
const [TENSOR, AHEAD, SLOTS, CODES] = [16, 48, 72, 24]; // bytes of the structs
// Steps of an image in a pass. Guessed ones do not pay here: without VNNI, products take most of the time, and these are as
// many for each row.
const WIDEST = 1n;
// In the order of abi.h, after the number of slots.
const POINTERS = [
  ...(["s", "z", "conv_state", "position", "images", "known", "bits", "seed", "index", "temperature", "label"] as const),
  ...(["known_bits", "partner", "guidance", "codes"] as const),
];

type Places = Record<(typeof POINTERS)[number] | "stop", number>;

export class Network {
  /** Bytes of an image. */
  readonly bytes: number;
  readonly id: number; // of the network in the kernel

  /** `type`: how the kernel stores the weights. */
  constructor(
    readonly kernel: Kernel,
    readonly file: ModelFile,
    type = file.weights,
  ) {
    const { shape, tensors, abi } = file;
    this.bytes = shape.height * shape.width * shape.channels;
    if (abi !== kernel.abi) throw new Error("The model's file is for another version of this page: reload the page.");
    const { functions } = kernel;
    const block = new Block(kernel);
    const structs = block.allocate(TENSOR * tensors.length);
    tensors.forEach((tensor, i) => {
      const place = block.put(tensor);
      kernel.view.setUint32(structs + TENSOR * i, place, true);
      kernel.view.setBigInt64(structs + TENSOR * i + 8, BigInt(tensor.length), true);
    });
    const sizes = block.put(BigInt64Array.from(Object.values(shape), BigInt));
    const [count, weights] = [BigInt(tensors.length), BigInt(type)];
    this.id = functions.scanline_create(sizes, structs, count, weights, 1n, functions.scanline_isas());
    if (!this.id) throw new Error("The model's file does not fit the kernel of this page.");
    block.free();
  }
}

/** Images in flight; slots are numbered from 0. */
export class Slots {
  readonly block: Block;
  private readonly places = {} as Places;
  private readonly struct: number;
  private readonly chosen: number;
  private readonly ahead: number;

  constructor(
    readonly network: Network,
    readonly count: number,
  ) {
    const { shape } = network.file;
    const { layers, heads, key_width, value_width } = shape;
    const convolutions = shape.causal_conv ? shape.blocks + layers : 0;
    const z = 4 * layers * count * heads * key_width;
    const sizes: Record<string, number> = {
      s: z * value_width,
      z,
      conv_state: 4 * convolutions * count * (shape.width + BEYOND) * heads * value_width,
      images: count * network.bytes,
      known: count * network.bytes,
      temperature: 4 * count,
      guidance: 4 * count,
      codes: 0,
    };
    const block = (this.block = new Block(network.kernel));
    this.struct = block.allocate(SLOTS);
    for (const name of POINTERS) this.places[name] = block.allocate(sizes[name] ?? 8 * count);
    this.chosen = block.put(BigInt64Array.from({ length: count }, (_, slot) => BigInt(slot)));
    this.places.stop = block.put(new BigInt64Array(count).fill(BigInt(network.bytes)));
    this.ahead = block.allocate(AHEAD);
    const { view } = network.kernel;
    view.setUint32(this.ahead, this.places.stop, true);
    view.setBigInt64(this.ahead + 8, WIDEST, true);
    view.setBigInt64(this.struct, BigInt(count), true);
    POINTERS.forEach((name, i) => view.setUint32(this.struct + 8 + 4 * i, name === "codes" ? 0 : this.places[name], true));
    for (let slot = 0; slot < count; slot++) {
      this.setFloat("temperature", slot, 1);
      this.setFloat("guidance", slot, 1);
      this.set("position", slot, shape.first);
    }
  }

  /** `stop`: the position from which on no step of the slot begins. */
  set(name: "position" | "seed" | "index" | "label" | "partner" | "stop", slot: number, value: number | bigint): void {
    this.network.kernel.view.setBigInt64(this.places[name] + 8 * slot, BigInt(value), true);
  }

  setFloat(name: "temperature" | "guidance", slot: number, value: number): void {
    this.network.kernel.view.setFloat32(this.places[name] + 4 * slot, value, true);
  }

  /** The bytes of a slot's image, or which of them are known. */
  row(name: "images" | "known", slot: number): Uint8Array {
    const { kernel, bytes } = this.network;
    return kernel.bytes(this.places[name] + slot * bytes, bytes);
  }

  position(slot: number): number {
    return Number(this.network.kernel.integers64(this.places.position, this.count)[slot]);
  }

  bits(slot: number): number {
    return this.network.kernel.floats64(this.places.bits, this.count)[slot]!;
  }

  /** What the known bytes that steps have passed cost. */
  knownBits(slot: number): number {
    return this.network.kernel.floats64(this.places.known_bits, this.count)[slot]!;
  }

  clearKnownBits(slot: number): void {
    this.network.kernel.floats64(this.places.known_bits, this.count)[slot] = 0;
  }

  /** Copies state, image and bits of slots to others, none of which is copied itself. */
  copy(sources: number[], targets: number[]): void {
    const { kernel, id } = this.network;
    const block = new Block(kernel);
    const [from, to] = [sources, targets].map((slots) => block.put(BigInt64Array.from(slots, BigInt)));
    kernel.functions.scanline_copy_slots(id, this.struct, from!, to!, BigInt(targets.length));
    block.free();
  }

  /** Lets slot 0 be painted from a code that a decoder has begun. */
  decode(code: Uint8Array, value: number, range: number): void {
    const { block } = this;
    const numbers = [0, value, range].map((number) => block.put(BigInt64Array.of(BigInt(number))));
    const [place, struct] = [block.put(code), block.allocate(CODES)];
    const { view } = this.network.kernel;
    view.setBigInt64(struct, BigInt(code.length), true);
    [place, ...numbers].forEach((each, i) => view.setUint32(struct + 8 + 4 * i, each, true));
    view.setUint32(this.struct + 8 + 4 * POINTERS.indexOf("codes"), struct, true);
  }

  /** Paints steps of all slots. */
  advance(steps: number): void {
    const { kernel, id } = this.network;
    const failed = kernel.functions.scanline_advance(id, this.struct, this.chosen, BigInt(this.count), BigInt(steps), this.ahead);
    if (failed) throw new Error("The kernel refuses the code or the class of an image.");
  }

  /** Reads the image of slot 0: `parameters` of each step, if these are asked for. */
  read(parameters = 0): BytesRead {
    const { kernel, id, bytes, file } = this.network;
    const count = bytes - file.shape.first;
    const [bits, intervals] = [this.block.allocate(8 * count), this.block.allocate(8 * count)];
    const size = (4 * parameters * count) / file.shape.step_bytes;
    const place = size && this.block.allocate(size);
    kernel.functions.scanline_read(id, this.struct, BigInt(file.shape.first), BigInt(bytes), bits, place, intervals);
    return {
      bits: kernel.floats64(bits, count).slice(),
      intervals: new Uint32Array(kernel.bytes(intervals, 8 * count).slice().buffer),
      parameters: new Float32Array(kernel.bytes(place, size).slice().buffer),
    };
  }

  /** Reads the image of slot 0; returns what goes into the layers, and comes out of the first `depth`: of each these numbers of
   * all steps. */
  readLayers(depth: number): Float32Array[] {
    const { kernel, id, bytes, file } = this.network;
    const { first, step_bytes, heads, value_width } = file.shape;
    const size = (4 * heads * value_width * (bytes - first)) / step_bytes;
    const place = this.block.allocate(size * (depth + 1));
    kernel.functions.scanline_read_layers(id, this.struct, BigInt(first), BigInt(bytes), BigInt(depth), place);
    return Array.from({ length: depth + 1 }, (_, layer) => new Float32Array(kernel.bytes(place + layer * size, size).slice().buffer));
  }
}

/** Of the bytes of an image that steps predict. */
export interface BytesRead {
  bits: Float64Array;
  intervals: Uint32Array; // start and width of each
  parameters: Float32Array; // of the distributions of all steps
}
