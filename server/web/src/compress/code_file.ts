// A .scan file of one picture, as model/formats/code_file.py writes it: what the server takes and gives. The page shows the
// code in it; a changed code gets a file with its own size and checksum. The checksum of the pixels stays the picture's.
// Codes of this browser get the same file as the server's.

import { toBase64Url } from "../base/base64";
import type { Picture } from "../pictures/picture";
import { crc32 } from "../pictures/zip";

const [MAGIC_AND_VERSION, CRC, DIGEST, NUMBERS, CHECKSUM] = [8, 4, 16, 6, 2]; // bytes, but for six numbers

const START = Uint8Array.of(0x93, 0x73, 0x63, 0x61, 0x6e, 0x0d, 0x0a, 1); // magic and version
const SHORT = 6; // bytes of a digest that a link has

export class CodeFile {
  private constructor(
    private readonly start: Uint8Array, // magic and version
    private readonly head: Uint8Array, // what follows the file's checksum, up to the code
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
    at += CHECKSUM;
    number(); // 0: a single code has no length, but goes to the file's end
    return new CodeFile(file.slice(0, MAGIC_AND_VERSION), file.slice(first, at), file.slice(at));
  }

  /** The file of a picture's code. coding: the digest of what codes, hexadecimal; precision: its name. */
  static of({ size, bytes }: Picture, coding: string, precision: string, code: Uint8Array): CodeFile {
    const digest = coding.match(/../g)!.map((pair) => parseInt(pair, 16));
    const name = new TextEncoder().encode(precision);
    const numbers = [size.height, size.width, size.channels, 1, 1, 1].flatMap(number); // one image, no labels
    const checksum = crc32(bytes);
    const head = [...digest, name.length, ...name, ...numbers, checksum & 255, (checksum >> 8) & 255, 0];
    return new CodeFile(START, Uint8Array.from(head), code);
  }

  /** What says which weights, at which precision, the code is of: some of its digest, for a link. */
  get weights(): string {
    return toBase64Url(this.head.subarray(0, SHORT));
  }

  /** The file with another code. */
  withCode(code: Uint8Array): Uint8Array {
    const own = code.length ? code : new Uint8Array(1); // a code has at least a byte
    const rest = Uint8Array.of(...this.head, ...own);
    const checksum = new Uint8Array(Uint32Array.of(crc32(rest)).buffer); // little endian, as every browser stores it
    return Uint8Array.of(...this.start, ...number(rest.length), ...checksum, ...rest);
  }
}

/** A number in LEB128. */
const number = (value: number): number[] => (value < 128 ? [value] : [(value & 127) | 128, ...number(value >> 7)]);
