// What a distribution does; draws from uniform numbers: one of several weights, and a byte of a discretised logistic; the
// logarithm of a byte's probability under it (kernels/pixel_logistics/reference.py).

import { exponential, logarithm, logOneMinusExponential, logSigmoid } from "./elementary";

/** Two uniforms in (0, 1), exact in float32, for each byte. */
export type Draw = readonly [number, number];

export interface Distribution {
  /** Samples the bytes of a step from its parameters, with the draws of each byte; a byte that is known keeps its value.
   * The temperature, a float32 number above 0, divides logits and multiplies scales. */
  sample(
    parameters: Float32Array,
    draws: readonly Draw[],
    temperature: number,
    known: readonly (number | undefined)[],
  ): number[];
  /** Returns the cost of a step's bytes in bits, at temperature 1. */
  bits(parameters: Float32Array, bytes: readonly number[]): number;
}

export const LOG_SCALE_FLOOR = -7;
const f = Math.fround;
const HALF_BIN = f(1 / 255);
const BLOCK = 16; // weights

/** The real number of a byte. */
export const valueOf = (byte: number): number => f(f(byte / 127.5) - 1);

/** An index, drawn by `uniform` with probabilities proportional to e^(logit / temperature). Weights are added in blocks,
 * and then the blocks, as kernels/cpu/distributions/categorical.h does. */
export function pick(logits: ArrayLike<number>, uniform: number, temperature: number): number {
  const top = largest(logits);
  const weights = Array.from(logits, (logit) => exponential(f(f(logit - top) / temperature)));
  const blocks: number[] = []; // the sum of each
  for (let begin = 0; begin < weights.length; begin += BLOCK) {
    let sum = 0;
    for (let i = begin; i < Math.min(begin + BLOCK, weights.length); i++) sum = f(sum + weights[i]!);
    blocks.push(sum);
  }
  const target = f(uniform * blocks.reduce((total, sum) => f(total + sum), 0));
  let [block, before] = [0, 0];
  for (; block < blocks.length - 1; block++) {
    const after = f(before + blocks[block]!);
    if (target < after) break;
    before = after;
  }
  // rounding may leave the target beyond the block's last sum: then it is the last index
  const last = Math.min((block + 1) * BLOCK, weights.length) - 1;
  let picked = block * BLOCK;
  for (let sum = before; picked < last; picked++) {
    sum = f(sum + weights[picked]!);
    if (target < sum) break;
  }
  return picked;
}

/** Byte 0 of a model without a start token, from the probabilities of the 256 values. */
export function firstByte(histogram: readonly number[], uniform: number, temperature: number): number {
  let sum = 0;
  const cumulative = histogram.map((probability) => (sum += probability ** (1 / f(temperature))));
  return cumulative.findIndex((below) => uniform * sum < below);
}

/** A byte of the logistic with that mean and scale, whose inverse is taken at `uniform`. */
export function logisticByte(mean: number, scale: number, uniform: number): number {
  const value = f(mean + f(scale * f(logarithm(uniform) - logarithm(f(1 - uniform)))));
  return Math.min(255, Math.max(0, roundToEven(f(f(value + 1) * 127.5))));
}

/** ln of the probability of a byte under a discretised logistic; the outer bins take the tails. */
export function logBin(byte: number, mean: number, scale: number): number {
  const centred = f(valueOf(byte) - mean);
  let log = 0;
  if (byte !== 255) log = f(log + logSigmoid(f(f(centred + HALF_BIN) / scale)));
  if (byte !== 0) log = f(log + logSigmoid(f(f(HALF_BIN - centred) / scale)));
  if (byte !== 0 && byte !== 255) log = f(log + logOneMinusExponential(f((2 * HALF_BIN) / scale)));
  return log;
}

/** ln of the sum of e^x. */
export function logSum(logs: ArrayLike<number>): number {
  const top = largest(logs);
  let sum = 0;
  for (let i = 0; i < logs.length; i++) sum += exponential(f(logs[i]! - top));
  return top + logarithm(f(sum));
}

function largest(numbers: ArrayLike<number>): number {
  let top = numbers[0]!;
  for (let i = 1; i < numbers.length; i++) top = Math.max(top, numbers[i]!);
  return top;
}

function roundToEven(value: number): number {
  const below = Math.floor(value);
  const over = value - below;
  return over > 0.5 || (over === 0.5 && below % 2) ? below + 1 : below;
}
