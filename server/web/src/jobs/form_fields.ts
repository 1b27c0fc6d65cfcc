// The form fields that all jobs have: number of images, seed, temperature. Reading an invalid one throws FormError.

import { find } from "../elements";
import { FormError } from "../shell/notice";

const LARGEST_SEED = 2n ** 63n - 1n;

/** The seed in `input`, as text; a random one if the field is empty. */
export function readSeed(input: HTMLInputElement): string {
  const text = input.value.trim();
  if (text === "") return randomSeed();
  if (/^\d{1,19}$/.test(text) && BigInt(text) <= LARGEST_SEED) return String(BigInt(text));
  throw new FormError(input, `The seed must be an integer from 0 to ${LARGEST_SEED}.`);
}

/** A random seed of 32 bits, short enough to be read out. */
export const randomSeed = (): string => String(crypto.getRandomValues(new Uint32Array(1))[0]);

/** The integer in `input`, from 1 to `most`. */
export function readCount(input: HTMLInputElement, most: number): number {
  const count = Number(input.value);
  if (input.value.trim() !== "" && Number.isInteger(count) && count >= 1 && count <= most) return count;
  throw new FormError(input, `The number of images must be an integer from 1 to ${most}.`);
}

/** The temperature of a slider. A link may have given one that the slider cannot represent. */
export function readTemperature(slider: HTMLInputElement): number {
  if (slider.dataset.invalid === undefined) return Number(slider.value);
  const given = slider.dataset.invalid;
  throw new FormError(slider, `The temperature must be from 0.01 to 2 with at most two decimals, not ${given}.`);
}

/** Shows the value of a slider of temperature or guidance beside it, in #<id>-shown. */
export function setUpSlider(id: string): void {
  const slider = find(id, HTMLInputElement);
  slider.addEventListener("input", () => {
    delete slider.dataset.invalid;
    find(`${id}-shown`, HTMLOutputElement).value = Number(slider.value).toFixed(2);
  });
}
