// "Save film": the same images again, painted by the server as an animated GIF.

import { call } from "../api/http";
import { find, setText } from "../base/elements";
import { save } from "../pictures/files";
import { showError } from "../base/notice";
import { json, route, type CodeRequest } from "./snippets";

/** Sets up the button #<id>; `asked` returns what it saves, and the name of the file, and `onSaved` gets it. The tab's bar
 * moves meanwhile: the server does not say how far it is. */
export function setUpFilm(
  id: string,
  tab: string,
  asked: () => [request: CodeRequest, name: string],
  onSaved = (_film: Blob, _request: CodeRequest) => {},
): void {
  const button = find(id, HTMLButtonElement);
  const [bar, status] = [find(`${tab}-progress`, HTMLProgressElement), `${tab}-status`];
  const label = button.textContent;
  button.addEventListener("click", async () => {
    if (button.ariaBusy === "true") return; // not disabled: a disabled button would lose the focus
    const [request, name] = asked();
    button.ariaBusy = "true";
    button.textContent = "Painting the film…";
    setText(status, "Painting the film.");
    if (bar.hidden) bar.removeAttribute("value");
    bar.hidden = false;
    try {
      const film = await (await call(route(request), json(request), "image/gif")).blob();
      save(film, `${name}.gif`);
      onSaved(film, request);
      setText(status, "The film is saved.");
    } catch (error) {
      setText(status, "");
      showError(error, tab);
    }
    if (!bar.hasAttribute("value")) bar.hidden = true; // no job has begun to use it
    button.ariaBusy = null;
    button.textContent = label;
  });
}
