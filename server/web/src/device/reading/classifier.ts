// Which class a picture shows, by the class head, and how unusual it is: what POST /v1/images/classifications answers, as
// model/tasks/classify.py makes it.

import { Network, Slots } from "../kernel/network";
import { headAnswer } from "./class_head";
import { cleaned } from "./cleaning";
import { tailProbability } from "./typicality";

const FLOAT32 = 0; // of WeightType: features come from whole weights, whatever the precision
const CATEGORICAL = 1;
const VALUES = 256;
const TYPICAL = 0.01;
const [TOLERANCE, MIN_TOLERANCE] = [1.5, 16]; // as in model/images/cleaning.py
const NO_HEAD = "Classes are read by a class head or by a server: this model has none, nor has this page.";

export interface Classified {
  probabilities: number[]; // of each class
  best: number | null; // the most probable one; null where the picture is unlike what the model knows
  typical: boolean | null; // null, as the next one, where it was not measured
  tail: number | null; // the probability that a test image is as unusual
}

export class Classifier {
  private readonly reader: Network;

  constructor(private readonly network: Network) {
    const { kernel, file } = network;
    if (!file.reading) throw new Error(NO_HEAD);
    this.reader = file.weights === FLOAT32 ? network : new Network(kernel, file, FLOAT32);
  }

  read(picture: Uint8Array): Classified {
    const { shape, reading } = this.network.file;
    const { cleaning, typical, levels } = reading!;
    const { bytes, noise } = cleaning ? cleaned(picture, shape, cleaning) : { bytes: picture, noise: 0 };
    const { logits, usual } = headAnswer(this.reader, bytes);
    const most = Math.max(...logits);
    const weights = logits.map((logit) => Math.exp(logit - most));
    const sum = weights.reduce((all, weight) => all + weight);
    const probabilities = weights.map((weight) => weight / sum);
    const measured = usual ?? (typical && tailProbability(typical, levels, this.bitsOf(bytes, noise), bytes, noise > 0));
    const isBlank = bytes.every((byte, at) => byte === bytes[at % shape.channels]);
    const tail = measured !== null && isBlank ? 0 : measured;
    const isTypical = tail === null ? null : tail >= TYPICAL;
    const isKnown = isTypical !== false || (usual === null && noise > 0);
    return { probabilities, best: isKnown ? logits.indexOf(most) : null, typical: isTypical, tail };
  }

  /** What a picture costs at the model's precision, without a class; where it has noise, to within a tolerance. */
  private bitsOf(bytes: Uint8Array, noise: number): number {
    const { file } = this.network;
    const { first, predicts } = file.shape;
    const isWide = noise > 0 && predicts === CATEGORICAL;
    const slots = new Slots(this.network, 1);
    slots.row("images", 0).set(bytes);
    const { bits, parameters } = slots.read(isWide ? VALUES : 0);
    slots.block.free();
    const tolerance = Math.trunc(Math.max(TOLERANCE * noise, MIN_TOLERANCE));
    const of = isWide ? bits.map((_, at) => rangeBits(parameters.subarray(at * VALUES), bytes[first + at]!, tolerance)) : bits;
    const histogram = file.first_byte_histogram;
    return of.reduce((sum, each) => sum + each, histogram ? -Math.log2(histogram[bytes[0]!]!) : 0);
  }
}

/** The bits of all values that differ no more from `byte` than `tolerance`, from the logits of 256. */
function rangeBits(logits: Float32Array, byte: number, tolerance: number): number {
  const most = logits.subarray(0, VALUES).reduce((a, b) => Math.max(a, b));
  let [total, within] = [0, 0];
  for (let value = 0; value < VALUES; value++) {
    const weight = Math.exp(logits[value]! - most);
    total += weight;
    if (Math.abs(value - byte) <= tolerance) within += weight;
  }
  return Math.log2(total) - Math.log2(within);
}
