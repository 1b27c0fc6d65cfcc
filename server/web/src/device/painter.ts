// Paints images with an exported model: each step runs the model once for the batch and samples the bytes of one step, a
// byte or a whole pixel, of each image.
// Knows neither the page nor the worker.

import { InferenceSession, Tensor } from "onnxruntime-web/wasm";
import { distributionOf, type Distribution } from "./distributions/distribution";
import { firstByte, type Draw } from "./distributions/draw";
import { readConfig, stepBytes, type OnnxConfig } from "./onnx_config";
import { labelOfImage, uniforms } from "./philox";

/** A part of a request: `images` images from index `first` on. */
export interface DeviceJob {
  seed: bigint; // below 2^63
  first: number;
  images: number;
  temperature: number;
  label: number; // 0: no class, k + 1: class k, -K: one of K classes for each image, drawn
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

/** The images of one job and their state; `position` bytes of each are painted. */
export class PaintLoop {
  readonly images: Uint8Array; // [B, N]
  readonly bits: Float64Array; // [B], of the painted bytes under the model at temperature 1
  position = 0;
  private state: { s: Tensor; z: Tensor }; // s [L, B, H, C, M], z [L, B, H, C]
  private readonly labels: { label?: Tensor }; // [B]; none where the model has no classes

  constructor(
    readonly model: OnnxModel,
    readonly job: DeviceJob,
  ) {
    const { layers, heads, key_width, value_width, classes } = model.config;
    this.images = new Uint8Array(job.images * model.bytes);
    this.bits = new Float64Array(job.images);
    const zeros = (...shape: number[]) => new Tensor(new Float32Array(shape.reduce((a, b) => a * b)), shape);
    const sums = [layers, job.images, heads, key_width] as const;
    this.state = { s: zeros(...sums, value_width), z: zeros(...sums) };
    const label = (_: unknown, image: number) => labelOfImage(job.label, job.seed, job.first + image);
    const labels = () => Int32Array.from({ length: job.images }, label);
    this.labels = classes.length ? { label: new Tensor("int32", labels(), [job.images]) } : {};
  }

  get isDone(): boolean {
    return this.position === this.model.bytes;
  }

  /** Paints the next step of every image. */
  async step(): Promise<void> {
    const { config, distribution } = this.model;
    const { first_byte_histogram: histogram } = config;
    const temperature = Math.fround(this.job.temperature);
    if (this.position === 0 && histogram) {
      this.append(1, ([draw]) => {
        const byte = firstByte(histogram, draw![0], temperature);
        return { bytes: [byte], bits: -Math.log2(histogram[byte]!) };
      });
      return;
    }
    const parameters = await this.parameters();
    const each = parameters.length / this.job.images;
    this.append(stepBytes(config), (draws, image) => {
      const own = parameters.subarray(image * each, (image + 1) * each);
      const bytes = distribution.sample(own, draws, temperature, []);
      return { bytes, bits: distribution.bits(own, bytes) };
    });
  }

  /** The painted bytes from position `from` on, image after image. */
  bytesFrom(from: number): Uint8Array {
    const length = this.position - from;
    const bytes = new Uint8Array(this.job.images * length);
    for (let image = 0; image < this.job.images; image++) {
      const start = image * this.model.bytes;
      bytes.set(this.images.subarray(start + from, start + this.position), image * length);
    }
    return bytes;
  }

  /** Returns the parameters [B, P] of the step at `position`, and updates the state. */
  private async parameters(): Promise<Float32Array> {
    const count = this.job.images;
    const { parameters, next_s, next_z } = await this.model.session.run({
      image: new Tensor("uint8", this.images, [count, this.model.bytes]),
      position: new Tensor("int32", new Int32Array(count).fill(this.position), [count]),
      ...this.labels,
      ...this.state,
    });
    this.state = { s: next_s!, z: next_z! };
    return parameters!.data as Float32Array;
  }

  /** Adds `count` bytes to every image, which `paint` samples from their draws. */
  private append(count: number, paint: (draws: Draw[], image: number) => { bytes: number[]; bits: number }): void {
    for (let image = 0; image < this.job.images; image++) {
      const { seed, first } = this.job;
      const draws = Array.from({ length: count }, (_, i) => uniforms(seed, first + image, this.position + i));
      const { bytes, bits } = paint(draws, image);
      this.images.set(bytes, image * this.model.bytes + this.position);
      this.bits[image]! += bits;
    }
    this.position += count;
  }
}
