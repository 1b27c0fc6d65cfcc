// Where the picture of a tab comes from besides the brush: a file that is chosen, pasted or dropped, the gallery, and while
// that is empty a few examples that the model paints.

import { bytesOf, type Model } from "../api/models";
import { runJob } from "../api/websocket";
import { find, make, setText } from "../elements";
import { Picture } from "../pictures/picture";
import { clearNotice, showNotice } from "../shell/notice";
import { isShown } from "../shell/tabs";

const THUMBNAILS = 12;
const EXAMPLES = 8;
const EXAMPLE_SEED = "7";

type Load = (image: CanvasImageSource, width: number, height: number) => void;

/** Calls `load` with every file that the user chooses in the field `id`, pastes or drops while the tab is shown. */
export function setUpFiles(tab: string, id: string, load: Load): void {
  const upload = find(id, HTMLInputElement);
  upload.addEventListener("change", () => {
    void loadFile(upload.files?.[0], load);
    upload.value = "";
  });
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find(({ type }) => type.startsWith("image/"));
    if (isShown(tab)) void loadFile(file, load);
  });
  // of the whole window: a file that is dropped beside the drawing must not replace the page
  window.addEventListener("dragover", (event) => event.preventDefault());
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    if (isShown(tab)) void loadFile(event.dataTransfer?.files[0], load);
  });
}

async function loadFile(file: File | undefined, load: Load): Promise<void> {
  if (!file) return;
  try {
    const image = await createImageBitmap(file);
    clearNotice();
    load(image, image.width, image.height);
    image.close();
  } catch {
    showNotice(`The browser cannot read ${file.name || "the file"} as an image.`);
  }
}

let examples: Promise<Picture[]> = Promise.resolve([]); // of one model
let examplesOf = "";

/** Offers the first pictures of the gallery that have the model's size, or examples; returns them. `prefix` is of the
 * elements' ids, `verb` what a click does. */
export async function showThumbnails(
  model: Model,
  gallery: Picture[],
  use: (picture: Picture) => void,
  { prefix, verb }: { prefix: string; verb: string },
): Promise<Picture[]> {
  const fitting = gallery.filter(({ bytes }) => bytes.length === bytesOf(model)).slice(0, THUMBNAILS);
  if (examplesOf !== model.id && !fitting.length) {
    examplesOf = model.id;
    examples = paintExamples(model).catch(() => []); // a server that is busy has none
  }
  const pictures = fitting.length ? fitting : await examples;
  if (!fitting.length && examplesOf !== model.id) return []; // another model has been selected
  find(`${prefix}examples`, HTMLElement).hidden = pictures.length === 0;
  setText(`${prefix}examples-label`, fitting.length ? "From the gallery" : "Painted by the model");
  find(`${prefix}thumbnails`, HTMLElement).replaceChildren(
    ...pictures.map((picture, index) => {
      const copy = picture.copy(() => true);
      const button = make("button", { type: "button", className: "thumbnail" }, copy.canvas);
      button.setAttribute("aria-label", `${verb} image ${index + 1}`);
      button.addEventListener("click", () => use(picture));
      return button;
    }),
  );
  return pictures;
}

async function paintExamples(model: Model): Promise<Picture[]> {
  const { guidance } = model.defaults;
  const pictures = Array.from({ length: EXAMPLES }, () => new Picture(model));
  const ofClass = model.classes.length ? { class: "any", guidance } : {};
  await runJob(
    { type: "generate", model: model.id, n: EXAMPLES, seed: EXAMPLE_SEED, ...ofClass },
    { frame: ({ index, first, bytes }) => void pictures[index]!.paint(first, bytes) },
    new AbortController().signal,
  );
  return pictures;
}
