// The bytes of a step, one or those of a pixel, from one mixture of K discretised logistics, whose C channels are
// conditioned on each other (kernels/pixel_logistics/reference.py). Parameters are K logits, K x C means, K x C raw scales
// and K x C (C - 1) / 2 coefficients.

import type { OnnxConfig } from "../base/onnx_config";
import { logBin, logisticByte, LOG_SCALE_FLOOR, logSum, pick, valueOf, type Distribution } from "./draw";
import { exponential } from "./elementary";

const f = Math.fround;

export function pixelLogistics(components: number, channels: number, scale: OnnxConfig["scale"]): Distribution {
  const [means, scales] = [components, components * (1 + channels)]; // where they begin
  const coefficients = components * (1 + 2 * channels);
  const each = (channels * (channels - 1)) / 2;

  /** The mean of a channel in a component, given the real numbers of the pixel's earlier bytes. */
  function meanOf(parameters: Float32Array, component: number, channel: number, seen: readonly number[]): number {
    const own = means + component * channels;
    const first = coefficients + component * each + (channel * (channel - 1)) / 2;
    let mean = parameters[own + channel]!;
    for (let earlier = 0; earlier < channel; earlier++) {
      const error = f(seen[earlier]! - parameters[own + earlier]!);
      mean = f(mean + f(parameters[first + earlier]! * error));
    }
    return mean;
  }

  function scaleOf(parameters: Float32Array, component: number, channel: number): number {
    const raw = parameters[scales + component * channels + channel]!;
    if (scale === "exp") return exponential(Math.max(raw, LOG_SCALE_FLOOR));
    return raw > 0 ? f(raw + f(1.0001)) : f(exponential(raw) + f(f(1.0001) - 1));
  }

  return {
    sample(parameters, draws, temperature, known) {
      const weights = parameters.slice(0, components).map((logit) => logit / temperature);
      const bytes: number[] = [];
      const seen: number[] = [];
      for (let channel = 0; channel < channels; channel++) {
        const ofComponent = (i: number): [number, number] => [
          meanOf(parameters, i, channel, seen),
          f(scaleOf(parameters, i, channel) * temperature),
        ];
        const [first, second] = draws[channel]!;
        const byte = known[channel] ?? logisticByte(...ofComponent(pick(weights, first, 1)), second);
        bytes.push(byte);
        if (bytes.length === channels) break;
        for (let i = 0; i < components; i++) weights[i]! += logBin(byte, ...ofComponent(i));
        seen.push(valueOf(byte));
      }
      return bytes;
    },
    bits(parameters, bytes) {
      const logits = parameters.subarray(0, components);
      const seen = bytes.map(valueOf);
      const logs = logits.map((logit, i) => {
        for (let channel = 0; channel < channels; channel++) {
          logit += logBin(bytes[channel]!, meanOf(parameters, i, channel, seen), scaleOf(parameters, i, channel));
        }
        return logit;
      });
      return (logSum(logits) - logSum(logs)) / Math.LN2;
    },
  };
}
