// The quantised CDF of codes, as in kernels/codec/reference.py: a byte's distribution as whole numbers, from the parameters
// that a step computes. Numbers are whole and below 2^53, so that float64 holds them; Math.floor of a quotient is their
// shift. The intervals of the 256 values of a byte divide TOTAL. Bits have the unit 1 / BIT; bytes 2^-12.

import { stepBytes, type OnnxConfig } from "../base/onnx_config";
import { TOTAL, type Interval } from "./coder";
import { BIT, EXP2, LOG2, ONE, SIGMOID, SIGMOID_BITS, SURE } from "./tables";

const BITS_OF_E = 94548; // log2(e) BIT
const CENTRE = 522240; // 127.5 bytes; also what a mean's unit is
const BYTE = 2 ** 12;
const MAX_VALUE = 2 ** 26; // of what a parameter becomes
const FARTHEST = 2 ** 23; // of a mean
const MAX_FACTOR = 2 ** 20;
// The inverse of a scale is bits by byte, in units of 2^-20: log2(e) / 127.5 / scale.
const RATE = 12441254689; // log2(e) / 127.5 in units of 2^-40
const [FLOOR, MAX_RATE] = [661836, 13011448]; // -ln of the least scale in bits, and its inverse: "exp"
const MIN_SCALE = 105; // 0.0001 in units of 2^-20: "elu"

/** Where the interval of a byte's value begins, for values from 0 to 256. */
export type Starts = (value: number) => number;
/** Returns the value of the byte that has these intervals: an encoder knows it, a decoder finds it. */
export type Choose = (starts: Starts) => number;

type Predicts = Pick<OnnxConfig, "predicts" | "step" | "channels" | "components" | "scale">;

/** Calls `choose` for each byte of a step in order, under its parameters. */
export function goThrough(config: Predicts, parameters: Float32Array, choose: Choose): void {
  if (config.predicts === "categorical") goThroughByte(parameters, choose);
  else goThroughPixel(config.components, stepBytes(config), config.scale, parameters, choose);
}

/** The intervals of a first byte that no step predicts, from the probabilities of its 256 values. */
export function histogramStarts(histogram: readonly number[]): Starts {
  const before = sums(histogram.map((probability) => Math.trunc(probability * 2 ** 20) + 1));
  return (value) => Math.floor((before[value]! * TOTAL) / before[256]!);
}

export function intervalOf(starts: Starts, value: number): Interval {
  const start = starts(value);
  return [start, starts(value + 1) - start];
}

/** The value whose interval holds a number below TOTAL. */
export function valueAt(starts: Starts, target: number): number {
  let value = 0;
  for (let step = 128; step >= 1; step /= 2) if (starts(value + step) <= target) value += step;
  return value;
}

/** From the cumulative probability of a value, so that no interval is empty. */
const startOf = (cumulative: number, value: number): number => cumulative - Math.floor(cumulative / 2 ** 16) + value;

function goThroughByte(logits: Float32Array, choose: Choose): void {
  const before = sums(belowLargest(logits).map(weightOf));
  choose((value) => startOf(Math.floor((before[value]! * TOTAL) / before[256]!), value));
}

/** The sum of the weights before each of them, and of all. */
function sums(weights: number[]): number[] {
  let sum = 0;
  return [0, ...weights.map((weight) => (sum += weight))];
}

function goThroughPixel(
  components: number,
  channels: number,
  scale: OnnxConfig["scale"],
  parameters: Float32Array,
  choose: Choose,
): void {
  const factors = (channels * (channels - 1)) / 2; // of a component
  const [means, scales, firstFactor] = [1, 1 + channels, 1 + 2 * channels].map((part) => part * components) as Triple;
  const each = Array.from({ length: components }, (_, i) => i);
  const meanOf = (i: number, channel: number) =>
    clamp(whole(parameters[means + i * channels + channel]!, CENTRE), FARTHEST) + CENTRE;
  let below = belowLargest(parameters.subarray(0, components));
  const bytes: number[] = [];
  for (let channel = 0; channel < channels; channel++) {
    const logistics = each.map((i) => {
      let mean = meanOf(i, channel);
      bytes.forEach((byte, earlier) => {
        const number = firstFactor + i * factors + (channel * (channel - 1)) / 2 + earlier;
        const factor = clamp(whole(parameters[number]!, BYTE), MAX_FACTOR);
        mean += Math.floor((factor * (byte * BYTE - meanOf(i, earlier))) / 2 ** 12);
      });
      return new Logistic(clamp(mean, FARTHEST), rateOf(scale, parameters[scales + i * channels + channel]!));
    });
    const weights = below.map(weightOf);
    const total = weights.reduce((sum, weight) => sum + weight, 0) * (SURE / TOTAL);
    const byte = choose((value) => {
      if (value === 0 || value === 256) return value && TOTAL;
      const cumulative = logistics.reduce((sum, each, i) => sum + weights[i]! * sigmoid(each.edge(value)), 0);
      return startOf(Math.floor(cumulative / total), value);
    });
    if (channel + 1 === channels) return;
    const after = below.map((bits, i) => bits + logistics[i]!.cost(byte));
    const least = Math.min(...after);
    below = after.map((bits) => bits - least);
    bytes.push(byte);
  }
}

type Triple = [number, number, number];

class Logistic {
  constructor(
    private readonly mean: number,
    private readonly rate: number, // the inverse of the scale
  ) {}

  /** How many bits from the mean the bin of a value begins. */
  edge(value: number): number {
    return Math.floor(((value * BYTE - BYTE / 2 - this.mean) * this.rate) / 2 ** 16);
  }

  /** The bits of a value. */
  cost(value: number): number {
    const inner = value === 255 ? 0 : log2Sigmoid(this.edge(value + 1));
    const outer = value === 0 ? 0 : log2Sigmoid(-this.edge(value));
    if (value === 0 || value === 255) return -inner - outer;
    return -inner - outer - (log2(Math.max(1, ONE - exp2(Math.floor(this.rate / 16)))) - 30 * BIT);
  }
}

/** 2^-below in units of 2^-20, rounded. */
const weightOf = (below: number): number => Math.floor((exp2(below) + 512) / 1024);

/** How many bits each logit is below the largest. */
function belowLargest(logits: Float32Array): number[] {
  const bits = Array.from(logits, (logit) => whole(logit, BITS_OF_E));
  const largest = Math.max(...bits);
  return bits.map((each) => largest - each);
}

/** The inverse of a logistic's scale, which is given by a parameter. */
function rateOf(scale: OnnxConfig["scale"], raw: number): number {
  const bits = whole(raw, BITS_OF_E);
  if (scale === "exp") return Math.floor((Math.floor(exp2(Math.max(bits + FLOOR, 0)) / 64) * MAX_RATE) / 2 ** 24);
  const linear = Math.max(whole(raw, 2 ** 20), 0);
  return Math.floor(RATE / (Math.floor(exp2(Math.max(-bits, 0)) / 1024) + linear + MIN_SCALE));
}

/** A float32 parameter times a factor as a whole number, rounded towards 0, from -MAX_VALUE, which is also what is not a
 * number, to MAX_VALUE. */
function whole(parameter: number, factor: number): number {
  const product = Math.fround(parameter * factor);
  return product > -MAX_VALUE ? Math.trunc(Math.min(product, MAX_VALUE)) : -MAX_VALUE;
}

const clamp = (number: number, most: number): number => Math.min(Math.max(number, -most), most);

/** 2^(-bits / BIT) ONE for bits of at least 0. */
function exp2(bits: number): number {
  const fraction = bits % BIT;
  return between(EXP2, fraction >> 8, fraction & 255, 8) >> Math.min(Math.floor(bits / BIT), 31);
}

/** log2(number) BIT for numbers from 1 to 2 ONE - 1. */
function log2(number: number): number {
  const places = 31 - Math.clz32(number);
  const fraction = number * 2 ** (30 - places) - ONE;
  return places * BIT + between(LOG2, fraction >> 22, (fraction & (2 ** 22 - 1)) >> 6, 16);
}

/** log2(1 / (1 + 2^(-bits / BIT))) BIT. */
function log2Sigmoid(bits: number): number {
  const power = exp2(Math.abs(bits));
  const index = Math.min(power >> 22, 255);
  return Math.min(bits, 0) - between(LOG2, index, (power - index * 2 ** 22) >> 6, 16);
}

/** SURE / (1 + 2^(-bits / BIT)). */
function sigmoid(bits: number): number {
  const away = Math.min(Math.abs(bits), SIGMOID_BITS * BIT - 1);
  const tail = between(SIGMOID, away >> 10, away & 1023, 10);
  return bits < 0 ? tail : SURE - tail;
}

/** The value of a table at index + fraction / 2^places. */
function between(table: Float64Array, index: number, fraction: number, places: number): number {
  const first = table[index]!;
  return first + Math.floor(((table[index + 1]! - first) * fraction) / 2 ** places);
}
