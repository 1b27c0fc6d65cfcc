// The one line at the top that speaks of trouble: what went wrong, in a sentence.

import { find } from "../elements";

/** Says a sentence until the next one, or until it is withdrawn. */
export function say(sentence: string): void {
  const notice = find("notice", HTMLElement);
  if (notice.textContent !== sentence) notice.textContent = sentence;
  notice.hidden = false;
}

/** Takes back what was said; only that sentence where one is given. */
export function withdraw(sentence?: string): void {
  const notice = find("notice", HTMLElement);
  if (sentence !== undefined && notice.textContent !== sentence) return;
  notice.hidden = true;
  notice.textContent = "";
}

/** Says what an error says. */
export const sayError = (error: unknown): void => say(error instanceof Error ? error.message : String(error));
