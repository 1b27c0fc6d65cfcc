// The field "Write a number": what is typed becomes the classes of the images, one character each. It is hidden where the
// model has fewer than two classes of one character.

import { find, setText } from "../base/elements";
import { FormError } from "../base/notice";

const MAX_CHARACTERS = 32;

export class WriteField {
  private letters: string[] = []; // the model's classes of one character
  private readonly form = find("write-form", HTMLFormElement);
  private readonly input = find("write", HTMLInputElement);

  /** `write` is called with the classes of what is typed, when the user asks for it; what it throws goes to `failed`. */
  constructor(write: (classes: string[]) => void, failed: (error: unknown) => void) {
    this.input.value = String(new Date().getFullYear());
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      try {
        write(this.read());
      } catch (error) {
        failed(error);
      }
    });
  }

  /** Takes the classes of a model. */
  fill(classes: string[]): void {
    this.letters = classes.filter((name) => [...name].length === 1);
    this.form.hidden = this.letters.length < 2;
    const isNumeric = this.letters.every((letter) => /\d/.test(letter));
    setText("write-label", isNumeric ? "Write a number by hand" : "Write a word");
    this.input.inputMode = isNumeric ? "numeric" : "text";
  }

  show(text: string): void {
    this.input.value = text;
  }

  /** The characters in words, where they are many. */
  private known(): string {
    const isLong = this.letters.length > 10 && this.letters.every((letter) => /[\dA-Za-z]/.test(letter));
    return isLong ? "letters and digits" : this.letters.join(" ");
  }

  /** The class of each character. Throws FormError where one has none. */
  read(): string[] {
    if (this.form.hidden) throw new Error("This model cannot write: its classes are no characters.");
    const characters = [...this.input.value.replace(/\s/g, "")];
    if (characters.length < 1 || characters.length > MAX_CHARACTERS) {
      throw new FormError(this.input, `Type 1 to ${MAX_CHARACTERS} characters to write.`);
    }
    return characters.map((character) => {
      const same = (letter: string) => letter.toLowerCase() === character.toLowerCase();
      const found = this.letters.includes(character) ? character : this.letters.find(same);
      if (found !== undefined) return found;
      throw new FormError(this.input, `This model cannot write “${character}”, only ${this.known()}.`);
    });
  }
}
