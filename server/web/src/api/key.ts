// The API key, where the server wants one: asked for once, kept for as long as the tab lives, sent to nobody else.

import { find } from "../elements";

const KEPT = "scanline-key";
let asking: Promise<void> | undefined;

const key = (): string | null => sessionStorage.getItem(KEPT);

/** The header that shows the key. */
export function keyHeaders(): Record<string, string> {
  const known = key();
  return known === null ? {} : { authorization: `Bearer ${known}` };
}

/** The subprotocols that show the key: browsers cannot send headers with a websocket. */
export function keyProtocols(): string[] {
  const known = key();
  if (known === null) return ["scanline"];
  const coded = btoa(known).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  return ["scanline", `key.${coded}`];
}

/** Asks the visitor, once however many want to know; resolves when there is a new key to try. */
export function askForKey(refusal: string): Promise<void> {
  asking ??= open(key() === null ? "" : refusal).finally(() => (asking = undefined));
  return asking;
}

function open(refusal: string): Promise<void> {
  const dialog = find("key-dialog", HTMLDialogElement);
  const input = find("key", HTMLInputElement);
  const said = find("key-refusal", HTMLElement);
  said.textContent = refusal;
  said.hidden = !refusal;
  input.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.oncancel = (event) => event.preventDefault(); // without a key there is nothing to go back to
    find("key-form", HTMLFormElement).onsubmit = (event) => {
      event.preventDefault();
      if (!/^[!-~]+$/.test(input.value)) {
        said.textContent = "A key has no spaces and only plain characters.";
        said.hidden = false;
        return;
      }
      sessionStorage.setItem(KEPT, input.value);
      dialog.close();
      resolve();
    };
  });
}
