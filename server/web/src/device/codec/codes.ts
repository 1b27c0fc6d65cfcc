// The code of a picture and the picture of a code, under a model without a class: the same bytes as the server's. The kernel
// knows the intervals of all bytes that a step predicts; a first byte that none predicts has those of a histogram.

import { Slots, type Network } from "../kernel/network";
import { Decoder, encode, TOTAL, type Interval } from "./coder";

const STEPS = 64; // in one call of the kernel

/** A picture and its code. */
export interface CodedPicture {
  bytes: Uint8Array;
  bits: number[]; // of each byte
  code: Uint8Array;
}

export function coded(network: Network, bytes: Uint8Array): CodedPicture {
  const slots = new Slots(network, 1);
  slots.row("images", 0).set(bytes);
  const numbers = slots.read().intervals;
  slots.block.free();
  const intervals: Interval[] = [];
  const histogram = network.file.first_byte_histogram;
  if (histogram) intervals.push(intervalOf(startsOf(histogram), bytes[0]!));
  for (let i = 0; i < numbers.length; i += 2) intervals.push([numbers[i]!, numbers[i + 1]!]);
  return { bytes, bits: intervals.map(([, width]) => Math.log2(TOTAL / width)), code: encode(intervals) };
}

export function decoded(network: Network, code: Uint8Array): CodedPicture {
  const decoder = new Decoder(code);
  const slots = new Slots(network, 1);
  const histogram = network.file.first_byte_histogram;
  if (histogram) {
    const starts = startsOf(histogram);
    const value = starts.findLastIndex((start) => start <= decoder.target);
    decoder.take(intervalOf(starts, value));
    slots.row("images", 0)[0] = value;
  }
  slots.decode(code.subarray(decoder.at), decoder.value, decoder.range);
  while (slots.position(0) < network.bytes) slots.advance(STEPS);
  const bytes = slots.row("images", 0).slice();
  slots.block.free();
  return { ...coded(network, bytes), code };
}

/** Where the intervals of the 256 values of a first byte begin, from their probabilities, and TOTAL. */
export function startsOf(histogram: readonly number[]): number[] {
  const weights = histogram.map((probability) => Math.trunc(probability * 2 ** 20) + 1);
  const total = weights.reduce((sum, weight) => sum + weight);
  let sum = 0;
  return [0, ...weights.map((weight) => Math.floor(((sum += weight) * TOTAL) / total))];
}

export function intervalOf(starts: readonly number[], value: number): Interval {
  return [starts[value]!, starts[value + 1]! - starts[value]!];
}
