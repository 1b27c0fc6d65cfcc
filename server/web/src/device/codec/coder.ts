// Arithmetic coding, as in kernels/codec/coder.py: a message is a number, and each symbol the part of an interval that
// it lies in. A symbol is an interval [start, start + width) of TOTAL. All are whole numbers below 2^53. Bytes beyond the
// end of a code are 0: an encoder drops the zeros at its end.

export type Interval = readonly [start: number, width: number];

export const TOTAL = 2 ** 24;
const WHOLE = 2 ** 48; // the range of an encoder that has encoded nothing
const MIN_RANGE = 2 ** 40; // of a range; below it, a byte is moved

export class Decoder {
  at = 0; // bytes that are read
  value = 0;
  range = 1;

  constructor(private readonly code: Uint8Array) {
    this.fill();
  }

  /** A number of the next symbol's interval. */
  get target(): number {
    return Math.min(Math.floor(this.value / this.unit), TOTAL - 1);
  }

  /** Goes past the symbol that has this interval. */
  take([start, width]: Interval): void {
    const { unit } = this;
    this.range = unit * width;
    this.value = Math.min(this.value - unit * start, this.range - 1); // it is below but for what is no code
    this.fill();
  }

  private get unit(): number {
    return Math.floor(this.range / TOTAL);
  }

  private fill(): void {
    while (this.range < MIN_RANGE) {
      this.value = this.value * 256 + (this.code[this.at++] ?? 0);
      this.range *= 256;
    }
  }
}

/** The shortest code of symbols: at most 1 byte longer than their bits. */
export function encode(intervals: Iterable<Interval>): Uint8Array {
  const code: number[] = [];
  let [low, range] = [0, WHOLE];
  for (const [start, width] of intervals) {
    const unit = Math.floor(range / TOTAL);
    low += unit * start;
    range = unit * width;
    if (low >= WHOLE) {
      carry(code);
      low -= WHOLE;
    }
    while (range < MIN_RANGE) {
      code.push(Math.floor(low / MIN_RANGE));
      low = (low % MIN_RANGE) * 256;
      range *= 256;
    }
  }
  // of the numbers in the last interval, the one with most zeros at its end
  let number = low;
  for (let zeros = 48; zeros >= 0; zeros -= 8) {
    number = Math.ceil(low / 2 ** zeros) * 2 ** zeros;
    if (number < low + range) break;
  }
  if (number >= WHOLE) carry(code);
  for (let zeros = 40; zeros >= 0; zeros -= 8) code.push(Math.floor(number / 2 ** zeros) % 256);
  return Uint8Array.from(code.slice(0, 1 + code.findLastIndex((byte) => byte !== 0)));
}

/** Adds 1 to the number that is written. */
function carry(code: number[]): void {
  let last = code.length - 1;
  while (code[last] === 255) code[last--] = 0;
  code[last]!++;
}
