// The field "Write a number": what is typed becomes the classes of the images, one character each, and blanks. It is hidden
// where the model has fewer than two classes of one character.

import { find, setText } from "../base/elements";
import { FormError } from "../base/notice";
import { BLANK } from "./writing";
import type { Model } from "../api/models";

const MAX_CHARACTERS = 32;

export class WriteField {
  private model = "";
  private letters: string[] = []; // the model's classes of one character
  private readonly form = find("write-form", HTMLFormElement);
  private readonly input = find("write", HTMLInputElement);

  /** `write` is called when the user asks for it. */
  constructor(write: () => void) {
    this.input.value = String(new Date().getFullYear());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      write();
    });
  }

  /** Takes the classes of a model. */
  fill(model: Model): void {
    this.model = model.id;
    this.letters = lettersOf(model);
    this.form.hidden = this.letters.length < 2;
    const isNumeric = this.letters.every((letter) => /\d/.test(letter));
    setText("write-label", isNumeric ? "Write a number by hand" : "Write a word");
    this.input.inputMode = isNumeric ? "numeric" : "text";
  }

  show(text: string): void {
    this.input.value = text;
  }

  get canWrite(): boolean {
    return !this.form.hidden;
  }

  /** The characters in words, where they are many. */
  private known(): string {
    const isLong = this.letters.length > 10 && this.letters.every((letter) => /[\dA-Za-z]/.test(letter));
    return isLong ? "letters and digits" : this.letters.join(" ");
  }

  /** The characters that are typed, without needless blanks. */
  private get typed(): string[] {
    return [...this.input.value.trim().replace(/\s+/g, BLANK)];
  }

  /** The characters that the model lacks. */
  get missing(): string[] {
    return this.typed.filter((character) => classOf(this.letters, character) === undefined);
  }

  /** The first of these models that has all that is typed. */
  otherOf(models: Model[]): Model | undefined {
    return models.find((model) => {
      const letters = lettersOf(model);
      return this.typed.every((character) => classOf(letters, character) !== undefined);
    });
  }

  /** The class of each character; blanks are blanks. Throws FormError where one has none. */
  read(): string[] {
    if (!this.canWrite) throw new Error("This model cannot write: its classes are no characters.");
    const count = this.typed.filter((character) => character !== BLANK).length;
    if (count < 1 || count > MAX_CHARACTERS) {
      throw new FormError(this.input, `Type 1 to ${MAX_CHARACTERS} characters to write.`);
    }
    const [first] = this.missing;
    if (first) throw new FormError(this.input, `${this.model} has no ${first}: ${this.known()} only.`);
    return this.typed.map((character) => classOf(this.letters, character)!);
  }
}

const lettersOf = ({ classes }: Model): string[] => classes.filter((name) => [...name].length === 1);

/** The class of a character, or of the same one in the other case; blanks need none. */
function classOf(letters: string[], character: string): string | undefined {
  if (character === BLANK || letters.includes(character)) return character;
  return letters.find((letter) => letter.toLowerCase() === character.toLowerCase());
}
