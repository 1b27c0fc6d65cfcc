// A .scan file of one picture, as model/formats/code_file.py writes it: what the server takes and gives. The page shows the
// code in it; a changed code gets a file with its own length and checksum. The checksum of the pixels stays the picture's.

import { encode, TOTAL } from "../device/codec/coder";
import { crc32 } from "../pictures/zip";

const [MAGIC_AND_VERSION, CRC, DIGEST, NUMBERS, CHECKSUM] = [8, 4, 16, 6, 2]; // bytes, but for six numbers
const BUCKETS = 32; // that a length's first bits are divided into

export class CodeFile {
  private constructor(
    private readonly start: Uint8Array, // magic and version
    private readonly head: Uint8Array, // what follows the file's checksum, up to the length of the code
    readonly code: Uint8Array,
  ) {}

  /** Reads a file that the server has written. */
  static read(file: Uint8Array): CodeFile {
    let at = MAGIC_AND_VERSION;
    const number = () => {
      let value = 0;
      for (let scale = 1; ; scale *= 128) {
        const byte = file[at++]!;
        value += (byte & 127) * scale;
        if (byte < 128) return value;
      }
    };
    number(); // the size of what follows
    const first = (at += CRC);
    at += DIGEST;
    at += 1 + file[at]!; // the precision's name
    for (let i = 0; i < NUMBERS; i++) number();
    const end = (at += CHECKSUM);
    const length = number();
    return new CodeFile(file.slice(0, MAGIC_AND_VERSION), file.slice(first, end), file.slice(at + length));
  }

  /** The file with another code. */
  withCode(code: Uint8Array): Uint8Array {
    const own = code.length ? code : new Uint8Array(1); // a code has at least a byte
    const length = packed(own.length);
    const rest = Uint8Array.of(...this.head, ...number(length.length), ...length, ...own);
    const checksum = new Uint8Array(Uint32Array.of(crc32(rest)).buffer); // little endian, as every browser stores it
    return Uint8Array.of(...this.start, ...number(rest.length), ...checksum, ...rest);
  }
}

/** A number in LEB128. */
const number = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...number(value >> 7)]);

/** The length of one code: how many of its bits are written as they are, then all of its bits as an arithmetic code. */
function packed(length: number): number[] {
  const shift = Math.max(0, 32 - Math.clz32(length) - Math.log2(BUCKETS));
  const [width, low] = [TOTAL / BUCKETS, TOTAL / 2 ** shift];
  return [shift, ...encode([[(length >> shift) * width, width], [(length % 2 ** shift) * low, low]])];
}
