// The particles of a completion: slots that complete the same picture with random numbers of their own, weighed by its known
// bytes. They are drawn anew at the checks of model/sampling/kinds/particles.py, as model/backends/particles.py draws them.

import type { ModelFile } from "../kernel/model_file";
import type { Slots } from "../kernel/network";
import { nearest } from "../reading/framing";
import { uniforms } from "./philox";

const RESAMPLING = 2 ** 31 - 1; // in the place of a particle: the random numbers of resampling
const UNIT = 2 ** 40; // of which weights are whole numbers, relative to the largest, so that their sums are exact
const SERIES = [1]; // of 2^x, in powers of x
for (let k = 1, power = 1, factorial = 1; k <= 12; k++) SERIES.push((power *= Math.LN2) / (factorial *= k));

/** Whether a known byte follows one that is not (-1), by which particles are weighed. */
export function areWeighed(known: Int16Array): boolean {
  const hidden = known.findIndex((byte) => byte < 0);
  return hidden >= 0 && known.subarray(hidden).some((byte) => byte >= 0);
}

/** The positions before which particles are drawn anew: the first steps of rows with bytes to paint, where any was weighed. */
export function checks(known: Int16Array, { height, width, channels, step_bytes }: ModelFile["shape"]): number[] {
  const positions: number[] = [];
  let since = known.findIndex((byte) => byte < 0);
  for (let row = 0; row < height; row++) {
    const start = row * width * channels;
    const first = known.subarray(start, start + width * channels).findIndex((byte) => byte < 0);
    const step = start + first - ((start + first) % step_bytes);
    if (first < 0 || !known.subarray(since, step).some((byte) => byte >= 0)) continue;
    positions.push(step);
    since = step;
  }
  return positions;
}

export class Particles {
  evidenceBits = 0; // of the known bytes that all particles have passed
  effective: number; // the smallest effective number so far
  private readonly numbers: number[]; // of the slots
  private readonly prefix: number; // known bytes, which the first particle reads for all
  private readonly stops: number[];

  /** In `count` slots from `first` on, which have all but their place. */
  constructor(
    private readonly slots: Slots,
    first: number,
    count: number,
    known: Int16Array,
    private readonly seed: bigint,
    private readonly image: number,
  ) {
    const { file, bytes } = slots.network;
    const hidden = known.findIndex((byte) => byte < 0);
    this.effective = count;
    this.numbers = Array.from({ length: count }, (_, particle) => first + particle);
    this.prefix = hidden - (hidden % file.shape.step_bytes);
    this.stops = [...checks(known, file.shape), bytes];
    if (this.prefix > file.shape.first) {
      this.stops.unshift(this.prefix);
      for (const slot of this.numbers.slice(1)) slots.set("position", slot, this.prefix);
    }
    this.stop();
  }

  /** Draws them anew where all are at a check; at the end one, which the first slot then has. */
  meet(): void {
    const [position] = this.stops;
    if (this.numbers.some((slot) => this.slots.position(slot) !== position)) return;
    this.stops.shift();
    if (position === this.prefix) this.begin();
    else if (this.stops.length) this.resample(position!);
    else this.choose(position!);
    this.stop();
  }

  /** The byte before which nothing can change any more. */
  get final(): number {
    const { slots, numbers } = this;
    const stop = Math.min(...numbers.map((slot) => slots.position(slot)));
    if (!this.stops.length) return stop;
    const [leader, ...others] = numbers.map((slot) => slots.row("images", slot).subarray(0, stop));
    const differs = leader!.findIndex((byte, at) => others.some((other) => other[at] !== byte));
    return differs < 0 ? stop : differs;
  }

  private stop(): void {
    const [position] = this.stops;
    if (position !== undefined) for (const slot of this.numbers) this.slots.set("stop", slot, position);
  }

  private begin(): void {
    const [leader, ...others] = this.numbers;
    this.slots.copy(others.map(() => leader!), others);
    this.weighAnew(this.slots.knownBits(leader!));
  }

  private resample(position: number): void {
    const { weights, total, bits, effective } = this.weighed();
    const count = weights.length;
    if (effective >= count / 2) return;
    const uniform = this.uniform(position);
    const times = weights.map(() => 0);
    for (let point = 0; point < count; point++) times[drawn(weights, (uniform + point) * (1 / count) * total)]!++;
    // Those that are not drawn become copies of those that are drawn more than once.
    const sources = this.numbers.flatMap((slot, at) => Array<number>(Math.max(times[at]! - 1, 0)).fill(slot));
    this.slots.copy(sources, this.numbers.filter((_, at) => !times[at]));
    this.weighAnew(bits);
  }

  private choose(position: number): void {
    const { weights, total, bits } = this.weighed();
    const chosen = drawn(weights, this.uniform(position) * total);
    if (chosen) this.slots.copy([this.numbers[chosen]!], [this.numbers[0]!]);
    this.weighAnew(bits);
  }

  private weighAnew(bits: number): void {
    this.evidenceBits += bits;
    for (const slot of this.numbers) this.slots.clearKnownBits(slot);
  }

  /** Weights relative to the largest, their sum, the bits of their mean, and the effective number of particles. Where each has
   * ruled out a known byte, all weigh the same. */
  private weighed() {
    const costs = this.numbers.map((slot) => this.slots.knownBits(slot)).map((bits) => (Number.isNaN(bits) ? Infinity : bits));
    const least = Math.min(...costs);
    const weights = costs.map((cost) => (least === Infinity ? 1 : inUnits(powerOfTwo(least - cost))));
    const total = sumOf(weights);
    const effective = (total * total) / sumOf(weights.map((weight) => inUnits(weight * weight)));
    this.effective = Math.min(this.effective, effective);
    return { weights, total, bits: least - Math.log2(total / weights.length), effective };
  }

  private uniform(position: number): number {
    return uniforms(this.seed, this.image, position, RESAMPLING)[0];
  }
}

/** The weight in whose part a point lies, when all are laid end to end. */
function drawn(weights: number[], point: number): number {
  let end = 0;
  return weights.findIndex((weight) => point < (end += weight));
}

const sumOf = (numbers: number[]): number => numbers.reduce((sum, each) => sum + each);

const inUnits = (weight: number): number => nearest(weight * UNIT) / UNIT;

/** 2^x for x <= 0, 0 below 2^-100: by the server's operations, each exactly rounded. */
export function powerOfTwo(x: number): number {
  if (x < -100) return 0;
  const whole = nearest(x);
  return SERIES.reduceRight((power, factor) => power * (x - whole) + factor) * 2 ** whole;
}
