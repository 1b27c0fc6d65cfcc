// "Save film": the same images again, painted by the server as an animated GIF.

import { call } from "../api/http";
import { find, setText } from "../elements";
import { save } from "../pictures/files";
import { showError } from "../shell/notice";
import { json, route, type CodeRequest } from "./snippets";

/** Sets up the button #<id>; `asked` returns what it saves, and the name of the file. Its progress is said in #<status>. */
export function setUpFilm(id: string, status: string, asked: () => [request: CodeRequest, name: string]): void {
  const button = find(id, HTMLButtonElement);
  const label = button.textContent;
  button.addEventListener("click", async () => {
    if (button.ariaBusy === "true") return; // not disabled: a disabled button would lose the focus
    const [request, name] = asked();
    button.ariaBusy = "true";
    button.textContent = "Painting the film…";
    setText(status, "Painting the film.");
    try {
      save(await (await call(route(request), json(request), "image/gif")).blob(), `${name}.gif`);
      setText(status, "The film is saved.");
    } catch (error) {
      setText(status, "");
      showError(error, status.replace(/-status$/, ""));
    }
    button.ariaBusy = null;
    button.textContent = label;
  });
}
