// The API key, if the server requires one: asked for once, kept in this tab's session, sent to this server only.

import { toBase64Url } from "../base/base64";
import { StoredText } from "../base/browser";
import { find } from "../base/elements";

const stored = new StoredText(() => sessionStorage, "scanline-key");
let asking: Promise<void> | undefined;

/** The key's header; empty without a key. Authorization may be a proxy's, to which the browser itself sends it. */
export function keyHeaders(): Record<string, string> {
  const key = stored.read();
  return key === null ? {} : { "x-api-key": key };
}

/** The websocket subprotocols; they carry the key, since browsers cannot set headers on a websocket. */
export function keyProtocols(): string[] {
  const key = stored.read();
  return key === null ? ["scanline"] : ["scanline", `key.${toBase64Url(new TextEncoder().encode(key))}`];
}

/** Asks the user for a key, once for all callers; resolves when there is a new key to try. `reason` says why the
 * stored key was rejected. */
export function askForKey(reason: string): Promise<void> {
  asking ??= open(stored.read() === null ? "" : reason).finally(() => (asking = undefined));
  return asking;
}

function open(reason: string): Promise<void> {
  const dialog = find("key-dialog", HTMLDialogElement);
  const input = find("key", HTMLInputElement);
  const message = find("key-error", HTMLElement);
  message.textContent = reason;
  message.hidden = !reason;
  input.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.oncancel = (event) => event.preventDefault(); // the page cannot be used without a key
    find("key-form", HTMLFormElement).onsubmit = (event) => {
      event.preventDefault();
      if (!/^[!-~]+$/.test(input.value)) {
        message.textContent = "A key consists of printable ASCII characters without spaces.";
        message.hidden = false;
        return;
      }
      stored.write(input.value);
      dialog.close();
      resolve();
    };
  });
}
