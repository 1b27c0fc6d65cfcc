// "View code": a dialog with the request of a tab as a program, in the chosen language, and a button to copy it.

import { keyHeaders } from "../api/key";
import { copied } from "../base/browser";
import { find, onClick, setText } from "../base/elements";
import { snippet, type CodeRequest, type Language } from "./snippets";

let request: CodeRequest;

export function setUpCode(): void {
  find("code-form", HTMLFormElement).addEventListener("change", show);
  onClick("code-close", () => find("code-dialog", HTMLDialogElement).close());
  onClick("code-copy", async () => setText("code-copied", await copied(find("code", HTMLElement).textContent!)));
}

export function showCode(of: CodeRequest): void {
  request = of;
  show();
  find("code-dialog", HTMLDialogElement).showModal();
}

function show(): void {
  const language = new FormData(find("code-form", HTMLFormElement)).get("language") as Language;
  setText("code", snippet(language, request, new URL(".", document.baseURI).href, "x-api-key" in keyHeaders()));
  setText("code-copied", "");
}
