// One byte from a mixture of K discretised logistics (kernels/logistics/reference.py). Parameters [3K] are logits, means
// and raw scales.

import type { Distribution } from "./distribution";
import { logBin, logisticByte, LOG_SCALE_FLOOR, logSum, pick } from "./draw";
import { exponential } from "./elementary";

export type Scale = "exp" | "elu";

const f = Math.fround;

export function logistics(scale: Scale): Distribution {
  return {
    sample(parameters, [draw], temperature, [known]) {
      const [logits, means, scales] = split(parameters);
      const picked = pick(logits, draw![0], temperature);
      const width = f(scaleOf(scales[picked]!, scale) * temperature);
      return [known ?? logisticByte(means[picked]!, width, draw![1])];
    },
    bits(parameters, [byte]) {
      const [logits, means, scales] = split(parameters);
      const logs = logits.map((logit, i) => logit + logBin(byte!, means[i]!, scaleOf(scales[i]!, scale)));
      return (logSum(logits) - logSum(logs)) / Math.LN2;
    },
  };
}

function split(parameters: Float32Array): [Float32Array, Float32Array, Float32Array] {
  const count = parameters.length / 3;
  return [parameters.subarray(0, count), parameters.subarray(count, 2 * count), parameters.subarray(2 * count)];
}

function scaleOf(raw: number, scale: Scale): number {
  if (scale === "exp") return exponential(Math.max(raw, LOG_SCALE_FLOOR));
  return raw > 0 ? f(raw + f(1.0001)) : f(exponential(raw) + f(f(1.0001) - 1));
}
