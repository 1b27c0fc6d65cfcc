// Distribution of the bytes of a step that a model predicts, one of those in kernels/.

import { stepBytes, type OnnxConfig } from "../onnx_config";
import { logSum, pick, type Draw } from "./draw";
import { pixelLogistics } from "./pixel_logistics";

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

export function distributionOf(config: OnnxConfig): Distribution {
  if (config.predicts === "categorical") return categorical;
  return pixelLogistics(config.components, stepBytes(config), config.scale);
}

/** One byte from 256 logits (kernels/categorical/reference.py): the first uniform picks it. */
const categorical: Distribution = {
  sample: (logits, [draw], temperature, [known]) => [known ?? pick(logits, draw![0], temperature)],
  bits: (logits, [byte]) => (logSum(logits) - logits[byte!]!) / Math.LN2,
};
