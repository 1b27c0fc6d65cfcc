// The class head, as in model/network/class_head.py: what comes out of some layers, averaged over cells of the picture, and one
// matrix. Its features are the server's but for their last bits, so that its answer has the same digits.

import { Slots, type Network } from "../kernel/network";

/** What the head says of a picture. */
export interface HeadAnswer {
  logits: number[]; // of each class
  usual: number | null; // the share of drawings of the classes that are at least as strange; null where it was not measured
}

export function headAnswer(network: Network, bytes: Uint8Array): HeadAnswer {
  const { matrix, bias, mean, scale, temperature, strange, quantiles } = network.file.head;
  const standard = features(network, bytes).map((feature, at) => (feature - mean![at]!) / scale![at]!);
  const product = (weights: Float32Array, first: number) =>
    standard.reduce((sum, feature, at) => sum + feature * weights[first + at]!, 0);
  const logits = Array.from(bias!, (offset, label) => offset + product(matrix!, label * standard.length));
  const answer = { logits: logits.map((logit) => logit / temperature![0]!), usual: null };
  if (!strange || !quantiles) return answer;
  const strangeness = product(strange, 0) + strange[standard.length]! - logSumExp(logits);
  const rank = quantiles.filter((quantile) => quantile < strangeness).length;
  return { ...answer, usual: (quantiles.length - rank) / quantiles.length };
}

/** The means of the layers' outputs over cells, of a picture that is read without a class. */
function features(network: Network, bytes: Uint8Array): Float64Array {
  const { layers, cells } = network.file.reading!;
  const { height, width, channels, heads, value_width, first, step_bytes } = network.file.shape;
  const slots = new Slots(network, 1);
  slots.row("images", 0).set(bytes);
  const outputs = slots.readLayers(Math.max(...layers));
  slots.block.free();
  const numbers = heads * value_width; // of a step
  const steps = (bytes.length - first) / step_bytes;
  const cellOf = Array.from({ length: steps }, (_, step) => {
    const pixel = Math.floor((first + step * step_bytes) / channels);
    const row = Math.floor((Math.floor(pixel / width) * cells) / height);
    return row * cells + Math.floor(((pixel % width) * cells) / width);
  });
  const counts = new Uint32Array(cells * cells);
  for (const cell of cellOf) counts[cell]!++;
  const sums = new Float64Array(layers.length * cells * cells * numbers);
  layers.forEach((layer, i) => {
    const output = outputs[layer]!;
    cellOf.forEach((cell, step) => {
      const to = (i * cells * cells + cell) * numbers;
      for (let n = 0; n < numbers; n++) sums[to + n]! += output[step * numbers + n]! / counts[cell]!;
    });
  });
  return sums;
}

function logSumExp(numbers: number[]): number {
  const most = Math.max(...numbers);
  return most + Math.log(numbers.reduce((sum, number) => sum + Math.exp(number - most), 0));
}
