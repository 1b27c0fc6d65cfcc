// "View code": a dialog with the request of a tab as a program, in the chosen language, and a button to copy it.

import { keyHeaders } from "../api/key";
import { find, onClick, setText } from "../elements";
import { snippet, type CodeRequest, type Language } from "./snippets";

let request: CodeRequest;

export function setUpCode(): void {
  find("code-form", HTMLFormElement).addEventListener("change", show);
  onClick("code-close", () => find("code-dialog", HTMLDialogElement).close());
  onClick("code-copy", async () => {
    const copied = await navigator.clipboard.writeText(find("code", HTMLElement).textContent!).then(
      () => "Copied.",
      () => "The browser does not allow copying.",
    );
    setText("code-copied", copied);
  });
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
