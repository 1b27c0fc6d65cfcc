// What a browser may lack or refuse, each behind one function that does without it or says what is missing: storage, where
// cookies are blocked or the page is embedded; the clipboard, over plain HTTP; workers, WebAssembly and streams.

import { make } from "./elements";

/** A text that outlives the page, or where the browser refuses that, lives as long as the page. */
export class StoredText {
  private text: string | null = null;

  /** `storage` returns localStorage or sessionStorage; a browser that blocks them throws when they are named. */
  constructor(
    private readonly storage: () => Storage,
    private readonly name: string,
  ) {}

  read(): string | null {
    try {
      return this.text ?? this.storage().getItem(this.name);
    } catch {
      return this.text;
    }
  }

  write(text: string): void {
    this.text = text;
    try {
      this.storage().setItem(this.name, text);
    } catch {
      // blocked or full: it is kept here
    }
  }
}

/** Copies a text, also where there is no clipboard but that of selected texts; returns whether it could. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = make("textarea", { value: text, className: "visually-hidden" });
    const focused = document.activeElement as HTMLElement | null;
    (document.querySelector("dialog[open]") ?? document.body).append(field); // the rest of the page is inert beside a dialog
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return isCopied;
  }
}

/** What the button of a copy says. */
export const copied = async (text: string): Promise<string> =>
  (await copyText(text)) ? "Copied." : "The browser does not allow copying.";

/** Whether the browser has all of these; older ones and those with less for safety's sake do not. */
export const has = (...names: string[]): boolean => names.every((name) => name in window);

/** Throws an error that says what is missing for a `purpose`. */
export function need(purpose: string, ...names: string[]): void {
  const missing = names.filter((name) => !has(name));
  if (missing.length) throw new Error(`This browser has no ${missing.join(" and no ")}: ${purpose} needs it.`);
}
