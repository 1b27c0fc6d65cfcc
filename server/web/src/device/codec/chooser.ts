// Bytes of an image that has a code: those of a picture, whose code is to be written, or those that a code has. Both go
// through the same intervals.

import type { OnnxConfig } from "../base/onnx_config";
import type { ByteChooser } from "../painting/painter";
import { Decoder, encode, TOTAL, type Interval } from "./coder";
import { goThrough, histogramStarts, intervalOf, valueAt, type Starts } from "./quantised_cdf";

export class CodeChooser implements ByteChooser {
  private readonly intervals: Interval[] = []; // of the bytes so far

  /** Chooses the value of the byte at `position`, which has these intervals. */
  private constructor(
    private readonly config: OnnxConfig,
    private readonly value: (starts: Starts, position: number) => number,
  ) {}

  static ofPicture(config: OnnxConfig, bytes: Uint8Array): CodeChooser {
    return new CodeChooser(config, (_, position) => bytes[position]!);
  }

  static ofCode(config: OnnxConfig, code: Uint8Array): CodeChooser {
    const decoder = new Decoder(code);
    return new CodeChooser(config, (starts) => {
      const value = valueAt(starts, decoder.target);
      decoder.take(intervalOf(starts, value));
      return value;
    });
  }

  firstByte(histogram: readonly number[]): number {
    return this.next(histogramStarts(histogram));
  }

  stepBytes(parameters: Float32Array): number[] {
    const bytes: number[] = [];
    goThrough(this.config, parameters, (starts) => {
      const byte = this.next(starts);
      bytes.push(byte);
      return byte;
    });
    return bytes;
  }

  /** The code of the bytes so far. */
  get code(): Uint8Array {
    return encode(this.intervals);
  }

  /** The bits of each byte so far. */
  get bits(): number[] {
    return this.intervals.map(([, width]) => Math.log2(TOTAL / width));
  }

  private next(starts: Starts): number {
    const value = this.value(starts, this.intervals.length);
    this.intervals.push(intervalOf(starts, value));
    return value;
  }
}
