// Samples a byte from a mixture of discretised logistics, as kernels/mixture/reference.py does: each result is rounded
// to float32 where it is there. The last bit of exp and log may differ.

export type Scale = "exp" | "elu";

const f = Math.fround;

/** Samples from parameters [3K]: logits, means, raw scales. The first uniform selects the component, the second goes
 * through its inverse CDF; temperature divides the logits and multiplies the scales. */
export function sample(parameters: Float32Array, draw: [number, number], temperature: number, scale: Scale): number {
  const count = parameters.length / 3;
  const t = f(temperature);
  const component = pick(parameters.subarray(0, count), draw[0], t);
  const mean = parameters[count + component]!;
  const width = f(scaleOf(parameters[2 * count + component]!, scale) * t);
  const u = draw[1];
  const value = f(mean + f(width * f(f(Math.log(u)) - f(Math.log1p(-u)))));
  return Math.min(255, Math.max(0, roundToEven(f(f(value + 1) * 127.5))));
}

/** Samples byte 0 of a model without a start token, from the probabilities of the 256 values. */
export function sampleFirst(histogram: readonly number[], draw: [number, number], temperature: number): number {
  const cumulative = sums(histogram.map((probability) => probability ** (1 / f(temperature))));
  const target = draw[0] * cumulative.at(-1)!;
  return cumulative.findIndex((sum) => target < sum);
}

function pick(logits: Float32Array, draw: number, temperature: number): number {
  const scaled = logits.map((logit) => logit / temperature);
  const top = Math.max(...scaled);
  const weights = scaled.map((logit) => Math.exp(f(logit - top)));
  const all = f(weights.reduce((sum, weight) => sum + weight, 0));
  const cumulative = sums(weights.map((weight) => weight / all), f);
  const target = f(draw * cumulative.at(-1)!);
  const picked = cumulative.findIndex((sum) => target < sum);
  return picked < 0 ? logits.length - 1 : picked;
}

function scaleOf(raw: number, scale: Scale): number {
  if (scale === "exp") return f(Math.exp(Math.max(raw, -7)));
  return f((raw > 0 ? raw : f(Math.expm1(raw))) + f(1.0001));
}

function sums(values: ArrayLike<number>, rounded = (sum: number) => sum): number[] {
  let sum = 0;
  return Array.from(values, (value) => (sum = rounded(sum + value)));
}

function roundToEven(value: number): number {
  const below = Math.floor(value);
  const over = value - below;
  return over > 0.5 || (over === 0.5 && below % 2) ? below + 1 : below;
}
