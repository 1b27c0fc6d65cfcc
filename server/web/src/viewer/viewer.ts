// The dialog that shows one picture enlarged, with its figures, what the model takes it for, and buttons to save, complete or
// follow it, and to go to the previous and the next one. Knows neither the gallery nor the completions.

import { enlarge, find, onClick, pixelScale, setText } from "../base/elements";
import { png, save } from "../pictures/files";
import type { Picture } from "../pictures/picture";
import type { Recipe } from "../recipe/recipe";
import { follow } from "../shell/follow";
import { showWhatItIs, type Painted } from "./what_is_it";

const [ROOM, MARGIN] = [336, 96]; // CSS pixels

export interface Viewed extends Painted {
  title: string;
  figures: string;
  file: string; // its name when it is saved, without the ending
  opener: HTMLElement; // gets the focus back
  recipe?: () => Promise<Recipe | undefined>; // that its file carries
}

let items: Viewed[] = [];
let at = 0;

/** `complete` is called with a picture that is to be completed. */
export function setUpViewer(complete: (picture: Picture) => void): void {
  const dialog = find("viewer", HTMLDialogElement);
  onClick("viewer-close", () => dialog.close());
  onClick("viewer-save", async () => {
    const { picture, file, recipe } = items[at]!;
    const { withRecipe } = await import("../recipe/lazy");
    save(withRecipe(await png(picture.canvas), await recipe?.()), `${file}.png`);
  });
  onClick("viewer-complete", () => {
    dialog.close();
    complete(items[at]!.picture);
  });
  onClick("viewer-follow", () => {
    dialog.close();
    follow(items[at]!.picture);
  });
  onClick("viewer-previous", () => show(at - 1));
  onClick("viewer-next", () => show(at + 1));
  dialog.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) show(at + step);
  });
  dialog.addEventListener("close", () => items[at]!.opener.focus());
  find("what", HTMLDetailsElement).addEventListener("toggle", () => showWhatItIs(items[at]!));
}

/** Opens the dialog on one of several pictures. */
export function view(viewed: Viewed[], index: number): void {
  items = viewed;
  show(index);
  find("viewer", HTMLDialogElement).showModal();
}

function show(index: number): void {
  const viewed = items[index];
  if (!viewed) return;
  at = index;
  const { picture, title, figures } = viewed;
  const canvas = find("viewed", HTMLCanvasElement);
  Object.assign(canvas, { width: picture.size.width, height: picture.size.height });
  enlarge(canvas, pixelScale(picture.size.width, Math.min(ROOM, window.innerWidth - MARGIN)));
  canvas.getContext("2d")!.drawImage(picture.canvas, 0, 0);
  setText("viewer-title", title);
  setText("viewer-figures", figures);
  for (const id of ["viewer-complete", "viewer-follow"]) find(id, HTMLButtonElement).disabled = !picture.done;
  // not disabled: a disabled button would lose the focus
  find("viewer-previous", HTMLButtonElement).setAttribute("aria-disabled", String(index === 0));
  find("viewer-next", HTMLButtonElement).setAttribute("aria-disabled", String(index === items.length - 1));
  void showWhatItIs(viewed);
}
