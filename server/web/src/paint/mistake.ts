// A field of a form that is not what it must be.

import { say } from "../look/notice";

export class Mistake extends Error {
  constructor(
    readonly field: HTMLElement,
    message: string,
  ) {
    super(message);
  }

  /** Says what is wrong and goes to the field, which is marked until it is changed. */
  show(): void {
    say(this.message);
    this.field.setAttribute("aria-invalid", "true");
    this.field.setAttribute("aria-describedby", "notice");
    this.field.focus();
    const mended = () => {
      this.field.removeAttribute("aria-invalid");
      this.field.removeAttribute("aria-describedby");
    };
    this.field.addEventListener("input", mended, { once: true });
  }
}
