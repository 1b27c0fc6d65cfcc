// What to paint, as the form has it and as a link says it: the same wish paints the same images.

import { find } from "../elements";
import { Mistake } from "./mistake";

export interface Wish {
  model: string;
  n: number;
  seed: string; // up to 2^63 - 1, more than a number holds; empty: the server draws one
  temperature: number;
}

export const MOST_IMAGES = 256;
const LARGEST_SEED = 2n ** 63n - 1n;

/** A seed that the visitor wrote into `input`; "" for none. */
export function readSeed(input: HTMLInputElement): string {
  const text = input.value.trim();
  if (text === "" || (/^\d{1,19}$/.test(text) && BigInt(text) <= LARGEST_SEED)) return text && String(BigInt(text));
  throw new Mistake(input, "A seed is a whole number from 0 to 9223372036854775807.");
}

/** A whole number in `input`, from 1 to `most`. */
export function readCount(input: HTMLInputElement, most: number): number {
  const count = Number(input.value);
  if (input.value.trim() !== "" && Number.isInteger(count) && count >= 1 && count <= most) return count;
  throw new Mistake(input, `The number of images is a whole number from 1 to ${most}.`);
}

/** The temperature of a slider; a link may have asked for one that a slider does not have. */
export function readTemperature(input: HTMLInputElement): number {
  if (input.dataset.wanted === undefined) return Number(input.value);
  throw new Mistake(input, `The temperature is above 0 and at most 2, to two decimals, not ${input.dataset.wanted}.`);
}

/** A seed that nobody chose; short enough to be read out. */
export const drawSeed = (): string => String(crypto.getRandomValues(new Uint32Array(1))[0]);

export function readForm(): Wish {
  return {
    model: find("model", HTMLSelectElement).value,
    n: readCount(find("count", HTMLInputElement), MOST_IMAGES),
    seed: readSeed(find("seed", HTMLInputElement)),
    temperature: readTemperature(find("temperature", HTMLInputElement)),
  };
}

/** Writes a wish into the form. */
export function fillForm(wish: Partial<Wish>): void {
  if (wish.n !== undefined) find("count", HTMLInputElement).value = Number.isFinite(wish.n) ? String(wish.n) : "";
  if (wish.seed !== undefined) find("seed", HTMLInputElement).value = wish.seed;
  const slider = find("temperature", HTMLInputElement);
  if (wish.temperature !== undefined) slider.value = String(wish.temperature);
  slider.dispatchEvent(new Event("input"));
  if (wish.temperature !== undefined && Number(slider.value) !== wish.temperature) {
    slider.dataset.wanted = String(wish.temperature);
  }
}

/** The wish in the page's address, if there is one: a link without a seed is none. */
export function readLink(): Partial<Wish> | undefined {
  const query = new URLSearchParams(location.search);
  const seed = query.get("seed");
  if (seed === null) return undefined;
  const number = (name: string) => (query.has(name) ? { [name]: Number(query.get(name) || NaN) } : {});
  return { seed, ...number("n"), ...number("temperature") };
}

/** The address that paints this again. */
export function linkTo(wish: Wish): string {
  const { model, seed, temperature, n } = wish;
  const query = new URLSearchParams({ model, seed, temperature: String(temperature), n: String(n) });
  return `${location.pathname}?${query}#paint`;
}
