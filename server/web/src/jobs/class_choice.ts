// The class buttons of a form: "any" where a class may be drawn for each image, the model's classes, and "none", for
// images without a class. They are radio buttons, so that arrow keys move between them; the fieldset is hidden where
// the model has no classes.

import { find, make } from "../base/elements";
import { FormError } from "../base/notice";
import { drawnLabel } from "../device/painting/philox";

// as the server names them
export const ANY = "any";
const NONE = "none";

interface Asked {
  class?: string | string[] | undefined; // of all images, or of each
  seed: string;
  n: number;
}

/** The label of each image: 0 for no class. */
export function labelsOf(names: string[], { class: asked, seed, n }: Asked): number[] {
  const isDrawn = asked === ANY && !names.includes(ANY);
  const nameOf = (index: number) => (Array.isArray(asked) ? asked[index] : asked) ?? "";
  const labelOf = (index: number) => (isDrawn ? drawnLabel(names.length, BigInt(seed), index) : names.indexOf(nameOf(index)) + 1);
  return Array.from({ length: n }, (_, index) => labelOf(index));
}

interface Choice {
  text: string;
  class: string | undefined; // what is sent
  title: string;
}

export class ClassChoice {
  private readonly box: HTMLFieldSetElement;
  private names: string[] = [];
  private choices: Choice[] = []; // one for each button
  private unknown: string | undefined; // what a link has asked for and the model does not have

  /** mayBeDrawn: "any" is the first button, and chosen at first; without it, "none" is. */
  constructor(
    private readonly id: string,
    private readonly mayBeDrawn: boolean,
  ) {
    this.box = find(id, HTMLFieldSetElement);
  }

  /** Shows buttons for these classes. The choice stays if it is among them. */
  fill(names: string[]): void {
    const { chosen, choices } = this;
    const ofNames = names.map((name) => ({ text: name, class: name, title: "" }));
    const none = { text: "none", class: undefined, title: "Images without a class" };
    const any = { text: ANY, class: ANY, title: "A class for each image, drawn by its seed and number" };
    this.names = names;
    this.unknown = undefined;
    this.choices = this.mayBeDrawn && !names.includes(ANY) ? [any, ...ofNames, none] : [none, ...ofNames];
    if (names.length === 0) this.choices = [];
    this.box.hidden = names.length === 0;
    this.box.querySelector("div")!.replaceChildren(...this.choices.map((choice) => this.button(choice)));
    const kept = choices.length > 0 ? this.choices.findIndex((choice) => choice.class === chosen) : 0;
    this.check(Math.max(kept, 0));
  }

  /** Chooses a class, "any", or none. A class that the model does not have is reported by `read`. */
  choose(name: string | undefined): void {
    const wanted = name === NONE && !this.names.includes(NONE) ? undefined : name;
    const at = this.choices.findIndex((choice) => choice.class === wanted);
    if (at < 0) this.unknown = name;
    this.check(Math.max(at, 0));
  }

  /** The class to ask for; undefined for none. Throws FormError if a link has asked for one that the model does not
   * have. */
  read(): string | undefined {
    const { unknown, chosen } = this;
    this.unknown = undefined; // reported once, since the first button is what the form shows
    if (unknown !== undefined) throw new FormError(this.radios[0] ?? this.box, `The model has no class ${unknown}.`);
    return chosen;
  }

  /** The class that the form shows as chosen; undefined for none. */
  get chosen(): string | undefined {
    return this.choices[this.radios.findIndex(({ checked }) => checked)]?.class;
  }

  /** Calls `listener` when the user chooses another class. */
  onChange(listener: () => void): void {
    this.box.addEventListener("change", listener);
  }

  /** The label of each image of a request that this browser paints: 0 for no class. */
  labelsOf(asked: Asked): number[] {
    return labelsOf(this.names, asked);
  }

  private get radios(): HTMLInputElement[] {
    return [...this.box.querySelectorAll("input")];
  }

  private check(at: number): void {
    const radio = this.radios[at];
    if (radio) radio.checked = true;
  }

  private button({ text, title }: Choice): HTMLLabelElement {
    const radio = make("input", { type: "radio", name: this.id, value: text });
    return make("label", { title }, radio, make("span", {}, text));
  }
}
