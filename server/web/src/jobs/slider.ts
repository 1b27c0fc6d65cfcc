// A slider, its value beside it in #<id>-shown. A link may ask for a value that it cannot represent: `read` reports that.

import { find } from "../base/elements";
import { FormError } from "../base/notice";

export class Slider {
  readonly input: HTMLInputElement;
  private invalid: number | undefined; // what a link has asked for

  /** `allowed`: what values there are, the beginning of a sentence. */
  constructor(
    id: string,
    private readonly allowed: string,
  ) {
    this.input = find(id, HTMLInputElement);
    this.input.addEventListener("input", () => {
      this.invalid = undefined;
      find(`${id}-shown`, HTMLOutputElement).value = Number(this.input.value).toFixed(2);
    });
  }

  fill(value: number): void {
    this.input.value = String(value);
    this.input.dispatchEvent(new Event("input"));
    if (Number(this.input.value) !== value) this.invalid = value;
  }

  /** Throws FormError for a value of a link that the slider cannot represent. */
  read(): number {
    if (this.invalid === undefined) return Number(this.input.value);
    throw new FormError(this.input, `${this.allowed}, not ${this.invalid}.`);
  }
}
