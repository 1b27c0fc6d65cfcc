// The class buttons of a form: "any", then the model's classes. They are radio buttons, so that arrow keys move between
// them; the fieldset is hidden where the model has no classes.

import { find, make } from "../elements";
import { FormError } from "../shell/notice";

const ANY = "any";

export class ClassChoice {
  private readonly box: HTMLFieldSetElement;
  private names: string[] = [];
  private unknown: string | undefined; // what a link has asked for and the model does not have

  constructor(private readonly id: string) {
    this.box = find(id, HTMLFieldSetElement);
  }

  /** Shows buttons for these classes. The chosen class stays chosen if it is one of them. */
  fill(names: string[]): void {
    const { chosen } = this;
    this.names = names;
    this.unknown = undefined;
    this.box.hidden = names.length === 0;
    this.box.querySelector("div")!.replaceChildren(...[ANY, ...names].map((name, label) => this.button(name, label)));
    this.choose(names.includes(chosen ?? "") ? chosen : undefined);
  }

  /** Chooses a class, or "any". A class that the model does not have is reported by `read`. */
  choose(name: string | undefined): void {
    const label = name === undefined ? 0 : this.names.indexOf(name) + 1;
    if (name !== undefined && label === 0) this.unknown = name;
    this.radios[label]!.checked = true;
  }

  /** The chosen class; undefined for "any". Throws FormError if a link has asked for one that the model does not have. */
  read(): string | undefined {
    const { unknown, chosen } = this;
    this.unknown = undefined; // reported once, since "any" is what the form shows
    if (unknown !== undefined) throw new FormError(this.radios[0]!, `The model has no class ${unknown}.`);
    return chosen;
  }

  /** The class that the form shows as chosen; undefined for "any". */
  get chosen(): string | undefined {
    return this.names[this.radios.findIndex(({ checked }) => checked) - 1];
  }

  /** Calls `listener` when the user chooses another class. */
  onChange(listener: () => void): void {
    this.box.addEventListener("change", listener);
  }

  /** The number of a class in the network: 0 for "any". */
  labelOf(name: string | undefined): number {
    return name === undefined ? 0 : this.names.indexOf(name) + 1;
  }

  private get radios(): HTMLInputElement[] {
    return [...this.box.querySelectorAll("input")];
  }

  private button(name: string, label: number): HTMLLabelElement {
    const radio = make("input", { type: "radio", name: this.id, value: String(label) });
    return make("label", {}, radio, make("span", {}, name));
  }
}
