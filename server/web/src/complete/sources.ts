// Where the picture of a tab comes from besides the brush: a file that is chosen, pasted or dropped, the gallery, and while
// that is empty a few examples that the model paints.

import { bytesOf, type Model } from "../api/models";
import { runJob } from "../api/websocket";
import { find, make, setText } from "../base/elements";
import type { Opened } from "../recipe/open";
import { Picture } from "../pictures/picture";
import type { Restored } from "../recipe/restore";
import { clearNotice, showError } from "../base/notice";
import { goTo, isShown, selectTab } from "../shell/tabs";

const THUMBNAILS = 12;
const EXAMPLES = 8;
const EXAMPLE_SEED = "7";

const HAVE_FILES = ["complete", "compress"]; // tabs; what is dropped on another is taken to the first

let fromFile: Picture[] = []; // of the last file, where it had several

/** Calls `use` with what is in every file that the user chooses in the field `id`, pastes or drops while the tab is shown. A
 * file with a recipe restores what it shows; the tab has its pictures, if it is shown. */
export function setUpFiles(tab: string, id: string, model: () => Model, use: (opened: Opened) => void): void {
  const open = async (file: File | undefined) => {
    if (!file) return;
    try {
      const opening = await import("../recipe/lazy");
      const opened = await opening.openFile(file, model);
      clearNotice();
      let said: unknown;
      const pictures = "pictures" in opened ? opened.pictures : undefined;
      fromFile = pictures && pictures.length > 1 ? pictures : [];
      if (opened.recipe) {
        const isHere = isShown(tab) && pictures !== undefined;
        try {
          const restored = await opening.restored(opened.recipe, pictures, file.name);
          said = restored.sentence;
          if (!restoreIn(isHere ? tab : restored.tab, restored)) return showError(said);
        } catch (error) {
          if (!isHere || !(error instanceof opening.FileError)) throw error;
          said = error; // the tab needs its pictures only
        }
      } else if (!isShown(tab)) selectTab(tab, true);
      use(opened);
      if (said) showError(said);
    } catch (error) {
      showError(error, isShown(tab) ? tab : undefined);
    }
  };
  for (const input of [id, ...(tab === HAVE_FILES[0] ? ["open"] : [])].map((id) => find(id, HTMLInputElement))) {
    input.addEventListener("change", () => {
      void open(input.files?.[0]);
      input.value = "";
    });
  }
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
    if (isShown(tab) || (tab === HAVE_FILES[0] && !HAVE_FILES.some(isShown))) void open(file);
  });
}

/** Goes to the address of what was opened, in a tab. Returns whether that tab takes its pictures from the file: the gallery
 * then paints them when it is shown. */
function restoreIn(tab: string, { model, tab: own, fields }: Restored): boolean {
  const search = own === "paint" ? `?${fields}` : "";
  const ofTab = tab !== own ? new URLSearchParams({ model: model.id }) : search ? "" : fields;
  goTo(`${search}#${tab}${ofTab && "&"}${ofTab}`, true);
  window.dispatchEvent(new PopStateEvent("popstate"));
  return tab !== own;
}

let examples: Promise<Picture[]> = Promise.resolve([]); // of one model
let examplesOf = "";
const latest: Record<string, object> = {}; // the last call, of each tab

/** Offers the first pictures that have the model's size, of the last file, the gallery, or examples; returns them. `prefix`
 * is of the elements' ids, `verb` what a click does. */
export async function showThumbnails(
  model: Model,
  gallery: Picture[],
  use: (picture: Picture) => void,
  { prefix, verb }: { prefix: string; verb: string },
): Promise<Picture[]> {
  const call = (latest[prefix] = {});
  const fitting = [fromFile, gallery]
    .map((pictures) => pictures.filter(({ bytes }) => bytes.length === bytesOf(model)).slice(0, THUMBNAILS))
    .find((pictures) => pictures.length) ?? [];
  if (examplesOf !== model.id && !fitting.length) {
    examplesOf = model.id;
    examples = paintExamples(model).catch(() => []); // a server that is busy has none
  }
  if (!fitting.length) find(`${prefix}examples`, HTMLElement).hidden = true; // they may be another model's
  const pictures = fitting.length ? fitting : await examples;
  if (latest[prefix] !== call) return []; // a file has been opened, or another model selected
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
