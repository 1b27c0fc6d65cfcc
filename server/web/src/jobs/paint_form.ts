// What to paint, as every form asks for it: number of images, seed, temperature, class, guidance; read from the form or
// from a link. The same request paints the same images.

import type { Model } from "../api/models";
import { find } from "../base/elements";
import { FormError } from "../base/notice";
import { ClassChoice } from "./class_choice";
import { GuidanceSlider } from "./guidance";
import { Slider } from "./slider";

const LARGEST_SEED = 2n ** 63n - 1n;

export interface PaintRequest {
  model: string;
  seed: string; // up to 2^63 - 1, more than a number holds exactly
  temperature: number;
  n: number;
  class?: string | undefined; // "any": one for each image, drawn; none without it
  guidance?: number | undefined; // 1, which is none, without it
  best_of?: number | undefined; // candidates of each image; 1 without it
  write?: string[] | undefined; // classes of one character and blanks: one image of each class, in place of n of `class`
}

export const isSeed = (text: string): boolean => /^\d{1,19}$/.test(text) && BigInt(text) <= LARGEST_SEED;

/** A random seed of 32 bits, short enough to be read out. */
export const randomSeed = (): string => String(crypto.getRandomValues(new Uint32Array(1))[0]);

/** What is written without its blanks: the classes of the images. */
export const lettersIn = (write: string[]): string[] => write.filter((character) => character !== " ");

/** The fields of an address that ask for this request. What is written says its guidance always: the model's default is
 * that of a link without one. */
export function toAddress({ write, ...request }: PaintRequest): URLSearchParams {
  const { n, ...of } = request;
  const fields = write ? { ...of, guidance: of.guidance ?? 1, write: write.join("") } : request;
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
}

/** The URL of the page that paints this request. */
export const linkTo = (request: PaintRequest): string => new URL(`?${toAddress(request)}#paint`, location.href).href;

/** The request in the fields of an address. With a seed it is whole, and what it leaves out is none; without one, the form
 * says the rest. */
export function fromAddress(fields: URLSearchParams): Partial<PaintRequest> {
  const [seed, name] = [fields.get("seed"), fields.get("class")];
  const number = (name: string) => (fields.has(name) ? { [name]: Number(fields.get(name) || NaN) } : {});
  const numbers = { ...number("n"), ...number("temperature"), ...number("guidance"), ...number("best_of") };
  if (seed === null) return { ...numbers, ...(name === null ? {} : { class: name }) };
  return { seed, guidance: 1, best_of: 1, ...numbers, class: name ?? undefined };
}

/** The fields of one form, with ids that begin with `prefix`. */
export class PaintForm {
  readonly classes: ClassChoice;
  private readonly guidance: GuidanceSlider;
  private readonly count: HTMLInputElement;
  private readonly seed: HTMLInputElement;
  private readonly temperature: Slider;
  private readonly picky: HTMLSelectElement | undefined; // of Paint

  /** mayBeDrawn: see ClassChoice. */
  constructor(prefix: "" | "complete-" | "device-", mayBeDrawn: boolean) {
    this.classes = new ClassChoice(`${prefix || "paint-"}class`, mayBeDrawn);
    this.guidance = new GuidanceSlider(`${prefix}guidance`);
    this.count = find(`${prefix}count`, HTMLInputElement);
    this.seed = find(`${prefix}seed`, HTMLInputElement);
    if (!prefix) this.picky = find("picky", HTMLSelectElement);
    const allowed = "The temperature must be from 0.01 to 2 with at most two decimals";
    this.temperature = new Slider(`${prefix}temperature`, allowed);
  }

  /** Throws FormError for an invalid field. `seed` is used where the field is empty. */
  read(seed = randomSeed()): PaintRequest {
    return {
      model: find("model", HTMLSelectElement).value,
      seed: this.readSeed(seed),
      temperature: this.temperature.read(),
      n: this.readCount(),
      class: this.classes.read(),
      guidance: this.guidance.read(),
      best_of: this.classes.chosen === undefined ? undefined : this.bestOf,
    };
  }

  /** How many candidates each image has; undefined for one. */
  private get bestOf(): number | undefined {
    const candidates = Number(this.picky?.value ?? 1);
    return candidates > 1 ? candidates : undefined;
  }

  /** The request to write these classes, one image of each; the form says the rest. Throws for a seed that is none. */
  readWriting(write: string[], seed = randomSeed()): PaintRequest {
    if (!isSeed(seed)) throw new Error(`The seed must be an integer from 0 to ${LARGEST_SEED}.`);
    const style = { temperature: this.temperature.read(), guidance: this.guidance.read(true), best_of: this.bestOf };
    const n = lettersIn(write).length;
    return { model: find("model", HTMLSelectElement).value, seed, ...style, n, write };
  }

  /** Writes the fields of a link into the form, invalid ones too: `read` reports them. A link with a seed and without a
   * class asks for none. */
  fill({ n, seed, temperature, class: name, guidance, best_of }: Partial<PaintRequest>): void {
    if (n !== undefined) this.count.value = Number.isFinite(n) ? String(n) : "";
    if (temperature !== undefined) this.temperature.fill(temperature);
    this.guidance.fill(guidance ?? 1);
    if (this.picky) this.picky.value = String(best_of ?? 1);
    if (seed !== undefined) this.seed.value = seed;
    if (seed !== undefined || name !== undefined) this.classes.choose(name);
  }

  /** Shows whether guidance can be used. */
  showGuidance(model: Model, particles = 1): void {
    this.guidance.show(model, { class: this.classes.chosen, particles });
    if (this.picky) this.picky.closest<HTMLElement>(".field")!.hidden = !model.has_class_head;
  }

  private readSeed(otherwise: string): string {
    const text = this.seed.value.trim();
    if (text === "") return otherwise;
    if (isSeed(text)) return String(BigInt(text));
    throw new FormError(this.seed, `The seed must be an integer from 0 to ${LARGEST_SEED}.`);
  }

  private readCount(): number {
    const { value, max } = this.count;
    const count = Number(value);
    if (value.trim() !== "" && Number.isInteger(count) && count >= 1 && count <= Number(max)) return count;
    throw new FormError(this.count, `The number of images must be an integer from 1 to ${max}.`);
  }
}
