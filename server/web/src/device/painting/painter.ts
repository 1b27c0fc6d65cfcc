// Paints images of one network, side by side: what the engine of the server places in slots, the kernel paints. Knows neither
// the page nor the worker.

import type { Frame } from "../../api/job";
import { Slots, type Network } from "../kernel/network";
import { uniforms } from "./philox";

const STEPS = 8; // in one call of the kernel
const LEAST_TEMPERATURE = 2 ** -66; // LEAST_DIVISOR of model/base/sampling_options.py

/** A part of a request. */
export interface DeviceJob {
  seed: bigint; // below 2^63
  first: number; // number of the first image
  labels: number[]; // of each image: 0 for no class, k + 1 for class k
  temperature: number;
  guidance: number; // 1: none
  known?: Int16Array; // of each byte of every image, -1 where it is to be painted; none are known without it
}

export class Painter {
  readonly images: number;
  private readonly slots: Slots;
  private readonly perImage: 1 | 2; // slots: a guided image has one with its label and one with none
  private readonly sent: number[]; // of each image the bytes of which there was a frame

  constructor(
    private readonly network: Network,
    private readonly job: DeviceJob,
  ) {
    this.images = job.labels.length;
    this.perImage = job.guidance === 1 ? 1 : 2;
    this.sent = job.labels.map(() => 0);
    this.slots = new Slots(network, this.perImage * this.images);
    for (let slot = 0; slot < this.slots.count; slot++) this.place(slot, Math.floor(slot / this.perImage));
  }

  get isDone(): boolean {
    return this.sent.every((bytes) => bytes === this.network.bytes);
  }

  /** Paints some more bytes. */
  advance(): void {
    this.slots.advance(STEPS);
  }

  /** What was painted since the last call, of each image of which there is any. */
  frames(): Frame[] {
    return this.sent.flatMap((first, image) => {
      const slot = image * this.perImage;
      const stop = this.slots.position(slot);
      this.sent[image] = stop;
      if (stop === first) return [];
      return { index: this.job.first + image, first, bytes: this.slots.row("images", slot).slice(first, stop) };
    });
  }

  /** Of each image, what its bytes so far cost at temperature 1. */
  bits(): Float64Array {
    const histogram = this.network.file.first_byte_histogram;
    return Float64Array.from(this.sent, (_, image) => {
      const slot = image * this.perImage;
      const first = histogram ? -Math.log2(histogram[this.slots.row("images", slot)[0]!]!) : 0;
      return first + this.slots.bits(slot);
    });
  }

  free(): void {
    this.slots.block.free();
  }

  private place(slot: number, image: number): void {
    const { slots, job } = this;
    const isPartner = slot % this.perImage === 1; // which has no label
    const temperature = Math.max(job.temperature, LEAST_TEMPERATURE);
    slots.set("seed", slot, job.seed);
    slots.set("index", slot, job.first + image);
    slots.set("label", slot, isPartner ? 0 : job.labels[image]!);
    slots.setFloat("temperature", slot, temperature);
    slots.setFloat("guidance", slot, job.guidance);
    if (this.perImage === 2) slots.set("partner", slot, isPartner ? -1 : 1);
    job.known?.forEach((byte, at) => {
      if (byte < 0) return;
      slots.row("images", slot)[at] = byte;
      slots.row("known", slot)[at] = 1;
    });
    const histogram = this.network.file.first_byte_histogram;
    if (histogram && !slots.row("known", slot)[0]) {
      const [uniform] = uniforms(job.seed, job.first + image, 0);
      slots.row("images", slot)[0] = firstByte(histogram, uniform, Math.fround(temperature));
    }
  }
}

/** Byte 0 of a model without a start token, from the probabilities of the 256 values. */
export function firstByte(histogram: readonly number[], uniform: number, temperature: number): number {
  const most = Math.max(...histogram);
  let sum = 0;
  const weights = temperature === 1 ? histogram : histogram.map((probability) => (probability / most) ** (1 / temperature));
  const cumulative = weights.map((weight) => (sum += weight));
  return cumulative.findIndex((below) => uniform * sum < below);
}
