// Paints images of one network, side by side: what the engine of the server places in slots, the kernel paints. Knows neither
// the page nor the worker.

import type { Frame } from "../../api/job";
import { Slots, type Network } from "../kernel/network";
import { areWeighed, Particles } from "./particles";
import { uniforms } from "./philox";

const STEPS = 8; // in one call of the kernel
const PARTICLE = 2 ** 32; // the number of a particle in that of its random numbers
const LEAST_TEMPERATURE = 2 ** -66; // LEAST_DIVISOR of model/base/sampling_options.py

/** A part of a request. */
export interface DeviceJob {
  seed: bigint; // below 2^63
  first: number; // number of the first image
  labels: number[]; // of each image: 0 for no class, k + 1 for class k
  temperature: number;
  guidance: number; // 1: none
  known?: Int16Array; // of each byte of every image, -1 where it is to be painted; none are known without it
  particles?: number; // of each completion, where its known bytes can weigh them and it is not guided; 1 without it
}

/** What is known of an image so far besides its bytes. */
export interface ImageFigures {
  bits: number; // that its bytes cost, at temperature 1
  evidenceBits: number | null; // that its known bytes cost; this and the next are null where none were given
  effectiveParticles: number | null;
}

/** How many slots an image takes: two with guidance, one for each particle. */
export function slotsOf({ guidance, known, particles = 1 }: DeviceJob): number {
  if (guidance !== 1) return 2;
  return known && areWeighed(known) ? particles : 1;
}

export class Painter {
  readonly images: number;
  private readonly slots: Slots;
  private readonly perImage: number; // slots: a guided image has one with its label and one with none
  private readonly groups: Particles[]; // of the images, where there are several
  private readonly sent: number[]; // of each image the bytes of which there was a frame

  constructor(
    private readonly network: Network,
    private readonly job: DeviceJob,
  ) {
    this.images = job.labels.length;
    this.perImage = slotsOf(job);
    this.sent = job.labels.map(() => 0);
    this.slots = new Slots(network, this.perImage * this.images);
    for (let slot = 0; slot < this.slots.count; slot++) this.place(slot, Math.floor(slot / this.perImage));
    const { known, guidance, seed, first } = job;
    const areSeveral = known && guidance === 1 && this.perImage > 1;
    this.groups = job.labels.flatMap((_, image) =>
      areSeveral ? new Particles(this.slots, image * this.perImage, this.perImage, known, seed, first + image) : [],
    );
  }

  get isDone(): boolean {
    return this.sent.every((bytes) => bytes === this.network.bytes);
  }

  /** Paints some more bytes. */
  advance(): void {
    this.slots.advance(STEPS);
    for (const group of this.groups) group.meet();
  }

  /** What was painted since the last call, of each image of which there is any. */
  frames(): Frame[] {
    return this.sent.flatMap((first, image) => {
      const slot = image * this.perImage;
      const stop = this.groups[image]?.final ?? this.slots.position(slot);
      this.sent[image] = stop;
      if (stop === first) return [];
      return { index: this.job.first + image, first, bytes: this.slots.row("images", slot).slice(first, stop) };
    });
  }

  figures(): ImageFigures[] {
    const { job, slots } = this;
    const histogram = this.network.file.first_byte_histogram;
    return this.sent.map((_, image) => {
      const slot = image * this.perImage;
      const first = histogram ? -Math.log2(histogram[slots.row("images", slot)[0]!]!) : 0;
      const bits = first + slots.bits(slot);
      if (!job.known) return { bits, evidenceBits: null, effectiveParticles: null };
      const { evidenceBits = 0, effective = 1 } = this.groups[image] ?? {};
      const ofFirst = job.known[0]! < 0 ? 0 : first;
      return { bits, evidenceBits: ofFirst + evidenceBits + slots.knownBits(slot), effectiveParticles: effective };
    });
  }

  free(): void {
    this.slots.block.free();
  }

  private place(slot: number, image: number): void {
    const { slots, job } = this;
    const isGuided = job.guidance !== 1;
    const number = slot % this.perImage;
    const isPartner = isGuided && number === 1; // which has no label
    const index = job.first + image + (isGuided ? 0 : number * PARTICLE);
    const temperature = Math.max(job.temperature, LEAST_TEMPERATURE);
    slots.set("seed", slot, job.seed);
    slots.set("index", slot, index);
    slots.set("label", slot, isPartner ? 0 : job.labels[image]!);
    slots.setFloat("temperature", slot, temperature);
    slots.setFloat("guidance", slot, job.guidance);
    if (isGuided) slots.set("partner", slot, isPartner ? -1 : 1);
    job.known?.forEach((byte, at) => {
      if (byte < 0) return;
      slots.row("images", slot)[at] = byte;
      slots.row("known", slot)[at] = 1;
    });
    const histogram = this.network.file.first_byte_histogram;
    if (histogram && !slots.row("known", slot)[0]) {
      const [uniform] = uniforms(job.seed, index, 0);
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
