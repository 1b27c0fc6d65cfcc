// Paints images in lockstep with an exported step: bytes go in, parameters come out, a byte of each image is drawn.
// Knows no page and no worker; the state of the images never leaves this object.

import { InferenceSession, Tensor } from "onnxruntime-web/wasm";
import { factsOf, type Facts } from "./facts";
import { sample, sampleFirst } from "./mixture";
import { uniforms } from "./philox";

/** Some images of a request: those from `first` on. */
export interface Job {
  seed: bigint; // below 2^63
  first: number;
  images: number;
  temperature: number;
}

/** An exported model, ready to paint any number of times. */
export class Model {
  private constructor(
    readonly facts: Facts,
    readonly session: InferenceSession,
  ) {}

  static async open(file: Uint8Array): Promise<Model> {
    const facts = factsOf(file);
    return new Model(facts, await InferenceSession.create(file, { executionProviders: ["wasm"] }));
  }

  get bytes(): number {
    const { height, width, channels } = this.facts;
    return height * width * channels;
  }
}

/** The images of one job; `position` bytes of each are painted. */
export class Painting {
  readonly images: Uint8Array; // [B, N]
  position = 0;
  private state: { s: Tensor; z: Tensor };

  constructor(
    readonly model: Model,
    readonly job: Job,
  ) {
    const { layers, heads, key_width, value_width } = model.facts;
    this.images = new Uint8Array(job.images * model.bytes);
    const zeros = (...shape: number[]) => new Tensor(new Float32Array(shape.reduce((a, b) => a * b)), shape);
    const sums = [layers, job.images, heads, key_width] as const;
    this.state = { s: zeros(...sums, value_width), z: zeros(...sums) };
  }

  get isDone(): boolean {
    return this.position === this.model.bytes;
  }

  /** Paints the next byte of every image. */
  async step(): Promise<void> {
    const { first_byte_histogram: histogram } = this.model.facts;
    if (this.position === 0 && histogram) {
      this.put((draw) => sampleFirst(histogram, draw, this.job.temperature));
      return;
    }
    const parameters = await this.parameters();
    const each = parameters.length / this.job.images;
    this.put((draw, image) => {
      const own = parameters.subarray(image * each, (image + 1) * each);
      return sample(own, draw, this.job.temperature, this.model.facts.scale);
    });
  }

  /** The bytes from `from` up to the position, image after image. */
  since(from: number): Uint8Array {
    const { bytes } = this.model;
    const length = this.position - from;
    const found = new Uint8Array(this.job.images * length);
    for (let image = 0; image < this.job.images; image++) {
      const start = image * bytes;
      found.set(this.images.subarray(start + from, start + this.position), image * length);
    }
    return found;
  }

  /** Parameters [B, 3K] of the byte at the position; moves the state on. */
  private async parameters(): Promise<Float32Array> {
    const count = this.job.images;
    const { parameters, next_s, next_z } = await this.model.session.run({
      image: new Tensor("uint8", this.images, [count, this.model.bytes]),
      position: new Tensor("int32", new Int32Array(count).fill(this.position), [count]),
      ...this.state,
    });
    this.state = { s: next_s!, z: next_z! };
    return parameters!.data as Float32Array;
  }

  private put(byteOf: (draw: [number, number], image: number) => number): void {
    for (let image = 0; image < this.job.images; image++) {
      const draw = uniforms(this.job.seed, this.job.first + image, this.position);
      this.images[image * this.model.bytes + this.position] = byteOf(draw, image);
    }
    this.position++;
  }
}
