// The numbers of an image's steps in one layer and head, from POST /v1/images/steps: asked for in blocks of rows, when
// they are first looked at, and kept.

import { call } from "../api/http";
import type { Model } from "../api/models";
import { fromBase64 } from "../base/base64";
import { base64 } from "../pictures/files";
import type { Picture } from "../pictures/picture";

const MAX_STEPS = 64; // steps of a request

type Name = "q" | "k" | "v" | "phi_q" | "phi_k" | "s" | "z" | "y" | "probabilities";
const NAMES: Name[] = ["q", "k", "v", "phi_q", "phi_k", "s", "z", "y", "probabilities"];

/** Bytes of one image, all layers and heads: of (s, z), and of the keys and values that softmax would keep of a step. */
interface Memory {
  state: number;
  cacheOfStep: number;
}

/** How the model's steps are laid out. */
export interface Layout {
  step_bytes: number;
  first_byte: number;
  predicts: string;
  window: [number, number] | null;
  key_width: number;
  value_width: number;
}

interface Block extends Record<Name, Float32Array> {
  first: number;
  steps: number;
}

/** One step: `before` and `after` are s [C * M] around it, `zBefore` and `zAfter` z [C]. */
export interface Step extends Record<"q" | "k" | "v" | "phi_q" | "phi_k" | "y", Float32Array> {
  before: Float32Array;
  after: Float32Array;
  zBefore: Float32Array;
  zAfter: Float32Array;
  probabilities: Float32Array[]; // of each byte
}

export class StepSource {
  readonly largest: Record<string, number> = {}; // magnitude of what has been loaded, by array
  private readonly blocks = new Map<number, Promise<Block>>();
  private readonly loaded = new Map<number, Block>();
  private image = "";
  private size = MAX_STEPS;
  layout!: Layout;
  memory!: Memory;

  constructor(
    readonly model: Model,
    private readonly picture: Picture,
    private readonly className: string | null,
    readonly layer: number,
    readonly head: number,
  ) {}

  /** Asks for the first block, which says how steps are laid out, and for the last one, in which the sums are largest. */
  async open(): Promise<void> {
    this.image = await base64(this.picture.canvas);
    const { width } = this.model;
    const first = await this.ask(0, stepsOfBlock(width));
    this.size = stepsOfBlock((width * this.model.channels) / this.layout.step_bytes);
    if (first.steps === this.size) this.keep(0, Promise.resolve(first));
    await this.load(this.count - 1);
  }

  /** Number of the image's steps. */
  get count(): number {
    return (this.picture.bytes.length - this.layout.first_byte) / this.layout.step_bytes;
  }

  /** Steps of a row of the image. */
  get row(): number {
    return (this.model.width * this.model.channels) / this.layout.step_bytes;
  }

  /** The first byte of a step. */
  position(step: number): number {
    return this.layout.first_byte + step * this.layout.step_bytes;
  }

  async load(step: number): Promise<void> {
    const index = Math.floor(step / this.size);
    if (!this.blocks.has(index)) this.keep(index, this.ask(index * this.size, this.size));
    await this.blocks.get(index);
  }

  /** The numbers of a step that is loaded, otherwise undefined. */
  step(step: number): Step | undefined {
    const block = this.loaded.get(Math.floor(step / this.size));
    if (!block) return undefined;
    const { key_width: c, value_width: m, step_bytes: bytes } = this.layout;
    const row = step - block.first;
    const part = (name: Name, width: number, at = row) => block[name].subarray(at * width, (at + 1) * width);
    return {
      q: part("q", c),
      k: part("k", c),
      v: part("v", m),
      phi_q: part("phi_q", c),
      phi_k: part("phi_k", c),
      y: part("y", m),
      before: part("s", c * m),
      after: part("s", c * m, row + 1),
      zBefore: part("z", c),
      zAfter: part("z", c, row + 1),
      probabilities: Array.from({ length: bytes }, (_, byte) => part("probabilities", 256, row * bytes + byte)),
    };
  }

  /** The shares of all steps up to one in what it reads: φ(q)ᵀφ(k) over their sum. Loads these steps, block after block. */
  async weights(at: number): Promise<Float32Array> {
    for (let step = 0; step <= at; step += this.size) await this.load(step);
    const { phi_q: query } = this.step(at)!;
    const products = Float32Array.from({ length: at + 1 }, (_, earlier) => {
      const { phi_k: key } = this.step(earlier)!;
      return query.reduce((sum, value, index) => sum + value * key[index]!, 0);
    });
    const total = products.reduce((sum, product) => sum + product, 0);
    return products.map((product) => product / total);
  }

  private keep(index: number, block: Promise<Block>): void {
    this.blocks.set(index, block);
    block.then(
      (each) => this.loaded.set(index, each),
      () => this.blocks.delete(index),
    );
  }

  private async ask(first: number, steps: number): Promise<Block> {
    const fields = { model: this.model.id, image: this.image, layer: this.layer, head: this.head, first, steps };
    const known = this.className === null ? {} : { class: this.className };
    const answer = await (await call("v1/images/steps", { ...fields, ...known })).json();
    this.layout = answer;
    const { state_bytes: state, cache_bytes: cache } = answer.attention;
    this.memory = { state, cacheOfStep: cache / (first + answer.steps) };
    const arrays = Object.fromEntries(NAMES.map((name) => [name, floats(answer[name])])) as Record<Name, Float32Array>;
    for (const name of NAMES) {
      this.largest[name] = Math.max(this.largest[name] ?? 0, largestMagnitude(arrays[name]));
    }
    return { first, steps: answer.steps, ...arrays };
  }
}

/** As many whole rows as a request may have: the server reads the image from its start for each. */
const stepsOfBlock = (row: number): number => Math.floor(MAX_STEPS / row) * row || MAX_STEPS;

/** Float32 values from base64, little endian. */
function floats(text: string): Float32Array {
  const view = new DataView(fromBase64(text).buffer);
  return Float32Array.from({ length: view.byteLength / 4 }, (_, index) => view.getFloat32(4 * index, true));
}

const largestMagnitude = (values: Float32Array): number =>
  values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
