// How unusual a picture is for a model, as in model/likelihood/typicality.py.

import type { Typical } from "../kernel/model_file";

const NEAR_END = 4; // of a byte that is no grey
const TAILS = 4;

/** A bound on the probability that a test image lies as far outside in one of its figures, from the picture's bits. */
export function tailProbability(typical: Typical, levels: number[], bits: number, bytes: Uint8Array, isNoisy: boolean): number {
  const greys = bytes.filter((byte) => byte > NEAR_END && byte < 255 - NEAR_END).length;
  const ranks = [
    interpolated(bits / bytes.length, typical.bits_per_dim, levels),
    interpolated(bits / Math.max(greys, 1), typical.bits_per_grey, levels),
  ];
  const tails = TAILS * Math.min(...ranks.flatMap((rank) => [rank, 1 - rank]));
  return Math.max(Math.min(tails, isNoisy ? typical.noisy : 1), TAILS / (typical.images + 1));
}

/** The line through points whose `xs` ascend, at x; beyond them it is level. */
function interpolated(x: number, xs: number[], ys: number[]): number {
  const next = xs.findIndex((each) => each > x);
  if (next <= 0) return next ? ys.at(-1)! : ys[0]!;
  const slope = (ys[next]! - ys[next - 1]!) / (xs[next]! - xs[next - 1]!);
  return ys[next - 1]! + slope * (x - xs[next - 1]!);
}
