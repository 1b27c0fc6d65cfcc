// Where a picture to complete comes from besides the brush: a file that is chosen, pasted or dropped, the gallery, and
// while that is empty a few examples that the model paints.

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

/** Calls `load` with every file that the user chooses, pastes or drops while the tab is shown. */
export function setUpFiles(load: Load): void {
  const upload = find("upload", HTMLInputElement);
  upload.addEventListener("change", () => {
    void loadFile(upload.files?.[0], load);
    upload.value = "";
  });
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find(({ type }) => type.startsWith("image/"));
    if (isShown("complete")) void loadFile(file, load);
  });
  // of the whole window: a file that is dropped beside the drawing must not replace the page
  window.addEventListener("dragover", (event) => event.preventDefault());
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    if (isShown("complete")) void loadFile(event.dataTransfer?.files[0], load);
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

let examples: Picture[] = []; // of one model
let examplesOf = "";

/** Offers the first pictures of the gallery that have the model's size, or examples. */
export async function showThumbnails(model: Model, gallery: Picture[], use: (picture: Picture) => void): Promise<void> {
  const fitting = gallery.filter(({ bytes }) => bytes.length === bytesOf(model)).slice(0, THUMBNAILS);
  if (fitting.length > 0) return show(fitting, "From the gallery", use);
  if (examplesOf !== model.id) {
    examplesOf = model.id;
    examples = [];
    examples = await paintExamples(model).catch(() => []); // a server that is busy has none
  }
  if (examplesOf === model.id) show(examples, "Painted by the model", use);
}

function show(pictures: Picture[], label: string, use: (picture: Picture) => void): void {
  find("examples", HTMLElement).hidden = pictures.length === 0;
  setText("examples-label", label);
  find("thumbnails", HTMLElement).replaceChildren(
    ...pictures.map((picture, index) => {
      const copy = picture.copy(() => true);
      const button = make("button", { type: "button", className: "thumbnail" }, copy.canvas);
      button.setAttribute("aria-label", `Complete image ${index + 1}`);
      button.addEventListener("click", () => use(picture));
      return button;
    }),
  );
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
