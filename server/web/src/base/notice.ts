// The notice at the top of the page: one sentence about an error or a state that the user has to know.

import { find } from "./elements";

/** Shows a sentence until the next one, or until it is cleared. */
export function showNotice(sentence: string): void {
  const notice = find("notice", HTMLElement);
  if (notice.textContent !== sentence) notice.textContent = sentence;
  notice.hidden = false;
}

/** Clears the notice; if a sentence is given, only that one. */
export function clearNotice(sentence?: string): void {
  const notice = find("notice", HTMLElement);
  if (sentence !== undefined && notice.textContent !== sentence) return;
  notice.hidden = true;
  notice.textContent = "";
}

/** A form field has an invalid value. */
export class FormError extends Error {
  constructor(
    readonly field: HTMLElement,
    message: string,
  ) {
    super(message);
  }
}

/** Shows an error's message, until another tab is shown. The field of a FormError gets the focus and is marked until it is
 * changed. An error of another `tab` than the one that is shown waits for that tab. */
export function showError(error: unknown, tab?: string): void {
  if (tab !== undefined && find(tab, HTMLElement).hidden) {
    window.addEventListener("tab", () => showError(error, tab), { once: true });
    return;
  }
  const message = error instanceof Error ? error.message : String(error);
  showNotice(message);
  window.addEventListener("tab", () => clearNotice(message), { once: true });
  if (!(error instanceof FormError)) return;
  const { field } = error;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", "notice");
  for (let fold = field.closest("details"); fold; fold = fold.parentElement!.closest("details")) fold.open = true;
  field.focus();
  const unmark = () => {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
  };
  field.addEventListener("input", unmark, { once: true });
}
