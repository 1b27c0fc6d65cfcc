// Where the picture of a tab comes from besides the brush: a file that is chosen, pasted or dropped, the gallery, and while
// that is empty a few examples that the model paints.

import { bytesOf, type Model } from "../api/models";
import { runJob } from "../api/websocket";
import { find, make, setText } from "../base/elements";
import { openFile, type Opened } from "../pictures/open";
import { Picture } from "../pictures/picture";
import { clearNotice, showError } from "../base/notice";
import { isShown, selectTab } from "../shell/tabs";

const THUMBNAILS = 12;
const EXAMPLES = 8;
const EXAMPLE_SEED = "7";

const HAVE_FILES = ["complete", "compress"]; // tabs; what is dropped on another is taken to the first

let fromFile: Picture[] = []; // of the last file, where it had several

/** Calls `use` with what is in every file that the user chooses in the field `id`, pastes or drops while the tab is shown. */
export function setUpFiles(tab: string, id: string, model: () => Model, use: (opened: Opened) => void): void {
  const open = async (file: File | undefined) => {
    if (!file) return;
    try {
      const opened = await openFile(file, model);
      clearNotice();
      fromFile = "pictures" in opened && opened.pictures.length > 1 ? opened.pictures : [];
      use(opened);
    } catch (error) {
      showError(error, tab);
    }
  };
  const upload = find(id, HTMLInputElement);
  upload.addEventListener("change", () => {
    void open(upload.files?.[0]);
    upload.value = "";
  });
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find(({ type }) => type.startsWith("image/"));
    if (isShown(tab)) void open(file);
  });
  // of the whole window: a file that is dropped beside the drawing must not replace the page
  window.addEventListener("dragover", (event) => event.preventDefault());
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    if (tab === HAVE_FILES[0] && !HAVE_FILES.some(isShown)) selectTab(tab, true);
    if (isShown(tab)) void open(file);
  });
}

let examples: Promise<Picture[]> = Promise.resolve([]); // of one model
let examplesOf = "";

/** Offers the first pictures that have the model's size, of the last file, the gallery, or examples; returns them. `prefix`
 * is of the elements' ids, `verb` what a click does. */
export async function showThumbnails(
  model: Model,
  gallery: Picture[],
  use: (picture: Picture) => void,
  { prefix, verb }: { prefix: string; verb: string },
): Promise<Picture[]> {
  const fitting = [fromFile, gallery]
    .map((pictures) => pictures.filter(({ bytes }) => bytes.length === bytesOf(model)).slice(0, THUMBNAILS))
    .find((pictures) => pictures.length) ?? [];
  if (examplesOf !== model.id && !fitting.length) {
    examplesOf = model.id;
    examples = paintExamples(model).catch(() => []); // a server that is busy has none
  }
  if (!fitting.length) find(`${prefix}examples`, HTMLElement).hidden = true; // they may be another model's
  const pictures = fitting.length ? fitting : await examples;
  if (!fitting.length && examplesOf !== model.id) return []; // another model has been selected
  find(`${prefix}examples`, HTMLElement).hidden = pictures.length === 0;
  const source = fromFile.includes(fitting[0]!) ? "From the file" : "From the gallery";
  setText(`${prefix}examples-label`, fitting.length ? source : "Painted by the model");
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
