// The C++ kernel of kernels/cpu as WebAssembly: the functions of abi.h, and memory for what they read and write. Its pointers
// have four bytes. What it refuses, and what it has no memory for, is a WebAssembly.RuntimeError.

const NO_SIMD = "This browser cannot run the model: it has no WebAssembly with SIMD.";
const VERSION_BITS = 0xffffn; // of scanline_abi(), below the sizes of the structs

interface Functions {
  memory: WebAssembly.Memory;
  malloc(size: number): number;
  free(place: number): void;
  _initialize(): void;
  scanline_abi(): bigint;
  scanline_isas(): number;
  scanline_create(shape: number, tensors: number, count: bigint, weights: bigint, threads: bigint, isa: number): number;
  scanline_advance(network: number, slots: number, chosen: number, count: bigint, passes: bigint, ahead: number): bigint;
  scanline_read(
    network: number,
    slots: number,
    start: bigint,
    stop: bigint,
    bits: number,
    parameters: number,
    intervals: number,
  ): void;
  scanline_read_layers(network: number, slots: number, start: bigint, stop: bigint, depth: bigint, outputs: number): void;
  scanline_copy_slots(network: number, slots: number, sources: number, targets: number, count: bigint): void;
}

/** Compiles the kernel; throws one sentence where the browser cannot. */
export async function compiled(code: BufferSource): Promise<WebAssembly.Module> {
  try {
    return await WebAssembly.compile(code);
  } catch {
    throw new Error(NO_SIMD);
  }
}

export class Kernel {
  private constructor(readonly functions: Functions) {}

  static async open(module: WebAssembly.Module): Promise<Kernel> {
    const cell: { memory?: WebAssembly.Memory } = {};
    /** Writes nanoseconds to `place`. */
    const clock_time_get = (_clock: number, _precision: bigint, place: number): number => {
      const nanoseconds = BigInt(Math.round(1e6 * performance.now()));
      new DataView(cell.memory!.buffer).setBigInt64(place, nanoseconds, true);
      return 0;
    };
    const instance = await WebAssembly.instantiate(module, { wasi_snapshot_preview1: { clock_time_get } });
    const functions = instance.exports as unknown as Functions;
    cell.memory = functions.memory;
    functions._initialize();
    return new Kernel(functions);
  }

  get abi(): number {
    return Number(this.functions.scanline_abi() & VERSION_BITS);
  }

  /** Views of the memory, which are valid until something is allocated. */
  get view(): DataView {
    return new DataView(this.functions.memory.buffer);
  }

  bytes(place: number, size: number): Uint8Array {
    return new Uint8Array(this.functions.memory.buffer, place, size);
  }

  floats64(place: number, count: number): Float64Array {
    return new Float64Array(this.functions.memory.buffer, place, count);
  }

  integers64(place: number, count: number): BigInt64Array {
    return new BigInt64Array(this.functions.memory.buffer, place, count);
  }
}

/** Memory that is freed together; all of it is zero at first. */
export class Block {
  private readonly places: number[] = [];

  constructor(readonly kernel: Kernel) {}

  allocate(size: number): number {
    const place = this.kernel.functions.malloc(Math.max(size, 1)) >>> 0;
    if (place === 0) throw new Error("This browser has too little memory for the model.");
    this.places.push(place);
    this.kernel.bytes(place, size).fill(0);
    return place;
  }

  /** The same, with a copy of an array. */
  put(array: ArrayBufferView): number {
    const place = this.allocate(array.byteLength);
    this.kernel.bytes(place, array.byteLength).set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
    return place;
  }

  free(): void {
    for (const place of this.places.splice(0)) this.kernel.functions.free(place);
  }
}
