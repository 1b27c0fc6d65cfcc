// Distribution of the bytes of a step that a model predicts, one of those in kernels/.

import { stepBytes, type OnnxConfig } from "../base/onnx_config";
import { logSum, pick, type Distribution } from "./draw";
import { pixelLogistics } from "./pixel_logistics";

export function distributionOf(config: OnnxConfig): Distribution {
  if (config.predicts === "categorical") return categorical;
  return pixelLogistics(config.components, stepBytes(config), config.scale);
}

/** One byte from 256 logits (kernels/categorical/reference.py): the first uniform picks it. */
const categorical: Distribution = {
  sample: (logits, [draw], temperature, [known]) => [known ?? pick(logits, draw![0], temperature)],
  bits: (logits, [byte]) => (logSum(logits) - logits[byte!]!) / Math.LN2,
};
