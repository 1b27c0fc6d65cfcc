// Paints images with an exported model: each step runs the model once for the batch and chooses the bytes of one step, a
// byte or a whole pixel, of each image, as a rule by random numbers.
// Knows neither the page nor the worker.

import { InferenceSession, Tensor } from "onnxruntime-web/wasm";
import { distributionOf } from "../distributions/distribution";
import { firstByte, type Distribution, type Draw } from "../distributions/draw";
import { readConfig, stepBytes, type OnnxConfig } from "../base/onnx_config";
import { labelOfImage, uniforms } from "./philox";

const BEYOND = 3; // pixels kept beyond a row, as in kernels/__init__.py

/** A part of a request: `images` images from index `first` on. */
export interface DeviceJob {
  seed: bigint; // below 2^63
  first: number;
  images: number;
  temperature: number;
  label: number; // 0: no class, k + 1: class k, -K: one of K classes for each image, drawn
  known?: Int16Array; // of each byte of every image, -1 where it is to be painted; none are known without it
}

/** An exported model that has been loaded. */
export class OnnxModel {
  readonly distribution: Distribution;

  private constructor(
    readonly config: OnnxConfig,
    readonly session: InferenceSession,
  ) {
    this.distribution = distributionOf(config);
  }

  static async open(file: Uint8Array): Promise<OnnxModel> {
    const config = readConfig(file);
    return new OnnxModel(config, await InferenceSession.create(file, { executionProviders: ["wasm"] }));
  }

  get bytes(): number {
    const { height, width, channels } = this.config;
    return height * width * channels;
  }
}

/** Chooses the bytes of the images of a loop. */
export interface ByteChooser {
  /** Byte 0 of a model without a start token, from the probabilities of its 256 values. */
  firstByte(histogram: readonly number[], image: number): number;
  /** The bytes of the step that begins at `position`. */
  stepBytes(parameters: Float32Array, image: number, position: number): number[];
}

/** Samples the bytes of a job. */
export class Sampler implements ByteChooser {
  private readonly temperature: number;

  constructor(
    private readonly model: OnnxModel,
    private readonly job: DeviceJob,
  ) {
    this.temperature = Math.fround(job.temperature);
  }

  firstByte(histogram: readonly number[], image: number): number {
    return this.known(0) ?? firstByte(histogram, this.draw(image, 0)[0], this.temperature);
  }

  stepBytes(parameters: Float32Array, image: number, position: number): number[] {
    const { config, distribution } = this.model;
    const draws = Array.from({ length: stepBytes(config) }, (_, i) => this.draw(image, position + i));
    const known = draws.map((_, i) => this.known(position + i));
    return distribution.sample(parameters, draws, this.temperature, known);
  }

  /** The labels of the images. */
  get labels(): Int32Array {
    const { label, seed, first, images } = this.job;
    return Int32Array.from({ length: images }, (_, image) => labelOfImage(label, seed, first + image));
  }

  private known(position: number): number | undefined {
    const byte = this.job.known?.[position] ?? -1;
    return byte < 0 ? undefined : byte;
  }

  private draw(image: number, position: number): Draw {
    return uniforms(this.job.seed, this.job.first + image, position);
  }
}

/** Images that are painted side by side, and their state; `position` bytes of each are painted. */
export class PaintLoop {
  readonly images: Uint8Array; // [B, N]
  readonly bits: Float64Array; // [B], of the painted bytes under the model at temperature 1
  position = 0;
  private state: { s: Tensor; z: Tensor; recent?: Tensor }; // s [L, B, H, C, M], z [L, B, H, C], recent [E, B, R, D]
  private readonly labels: { label?: Tensor }; // [B]; none where the model has no classes

  /** `labels` [B]: 0 for an image without a class. */
  constructor(
    readonly model: OnnxModel,
    private readonly chooser: ByteChooser,
    labels: Int32Array,
  ) {
    const { layers, heads, key_width, value_width, classes, neighbours, blocks, width } = model.config;
    this.images = new Uint8Array(labels.length * model.bytes);
    this.bits = new Float64Array(labels.length);
    const zeros = (...shape: number[]) => new Tensor(new Float32Array(shape.reduce((a, b) => a * b)), shape);
    const sums = [layers, labels.length, heads, key_width] as const;
    this.state = { s: zeros(...sums, value_width), z: zeros(...sums) };
    if (neighbours) this.state.recent = zeros(blocks + layers, labels.length, width + BEYOND, heads * value_width);
    this.labels = classes.length ? { label: new Tensor("int32", labels, [labels.length]) } : {};
  }

  get isDone(): boolean {
    return this.position === this.model.bytes;
  }

  /** Paints the next step of every image. */
  async step(): Promise<void> {
    const { config, distribution } = this.model;
    const { first_byte_histogram: histogram } = config;
    if (this.position === 0 && histogram) {
      this.append(1, (image) => {
        const byte = this.chooser.firstByte(histogram, image);
        return { bytes: [byte], bits: -Math.log2(histogram[byte]!) };
      });
      return;
    }
    const parameters = await this.parameters();
    const each = parameters.length / this.bits.length;
    this.append(stepBytes(config), (image) => {
      const own = parameters.subarray(image * each, (image + 1) * each);
      const bytes = this.chooser.stepBytes(own, image, this.position);
      return { bytes, bits: distribution.bits(own, bytes) };
    });
  }

  /** The painted bytes from position `from` on, image after image. */
  bytesFrom(from: number): Uint8Array {
    const length = this.position - from;
    const bytes = new Uint8Array(this.bits.length * length);
    for (let image = 0; image < this.bits.length; image++) {
      const start = image * this.model.bytes;
      bytes.set(this.images.subarray(start + from, start + this.position), image * length);
    }
    return bytes;
  }

  /** Returns the parameters [B, P] of the step at `position`, and updates the state. */
  private async parameters(): Promise<Float32Array> {
    const count = this.bits.length;
    const { parameters, next_s, next_z, next_recent } = await this.model.session.run({
      image: new Tensor("uint8", this.images, [count, this.model.bytes]),
      position: new Tensor("int32", new Int32Array(count).fill(this.position), [count]),
      ...this.labels,
      ...this.state,
    });
    this.state = { s: next_s!, z: next_z!, ...(next_recent && { recent: next_recent }) };
    return parameters!.data as Float32Array;
  }

  /** Adds `count` bytes to every image, which `paint` returns. */
  private append(count: number, paint: (image: number) => { bytes: number[]; bits: number }): void {
    for (let image = 0; image < this.bits.length; image++) {
      const { bytes, bits } = paint(image);
      this.images.set(bytes, image * this.model.bytes + this.position);
      this.bits[image]! += bits;
    }
    this.position += count;
  }
}
