// Complete: an image that is drawn, uploaded or taken from the gallery, partly hidden, and the model's completions.

import { bytesOf, type Model } from "../api/models";
import type { Frame } from "../api/websocket";
import { find, make, onClick } from "../elements";
import { ClassChoice } from "../jobs/class_choice";
import { readCount, readSeed, readTemperature, setUpSlider } from "../jobs/form_fields";
import { GuidanceSlider } from "../jobs/guidance";
import { JobRunner } from "../jobs/job_runner";
import { base64, png } from "../pictures/files";
import type { Picture } from "../pictures/picture";
import { onModel } from "../shell/model";
import { clearNotice, FormError, showError, showNotice } from "../shell/notice";
import { isShown } from "../shell/tabs";
import { DrawingCanvas } from "./canvas";
import { ParticlesChoice } from "./particles";
import { Results } from "./results";

const MOST_COMPLETIONS = 32;
const THUMBNAILS = 12;

let model: Model; // the page is inert until there is one
let canvas: DrawingCanvas;
let classes: ClassChoice;
let guidance: GuidanceSlider;
let particles: ParticlesChoice;
let results: Results;
let runner: JobRunner;

/** `pictures` returns the finished pictures of the gallery. */
export function setUpComplete(pictures: () => Picture[]): void {
  classes = new ClassChoice("complete-class", false);
  guidance = new GuidanceSlider("complete-guidance");
  particles = new ParticlesChoice();
  canvas = new DrawingCanvas((occlusion) => {
    particles.show(occlusion);
    showGuidance();
  });
  classes.onChange(showGuidance);
  particles.onChange(showGuidance);
  results = new Results();
  runner = new JobRunner("complete");
  onModel((selected) => {
    canvas.fit(selected);
    classes.fill(selected.classes);
    model = selected;
    showGuidance();
    find("colour-field", HTMLElement).hidden = selected.channels === 1;
  });
  find("complete-form", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    complete().catch(showError);
  });
  setUpSlider("complete-temperature");
  onClick("clear", () => canvas.clear());
  onClick("invert", () => canvas.invert());
  onClick("uncover", () => canvas.uncover());
  const upload = find("upload", HTMLInputElement);
  upload.addEventListener("change", () => {
    void loadFile(upload.files?.[0]);
    upload.value = "";
  });
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find(({ type }) => type.startsWith("image/"));
    if (isShown("complete")) void loadFile(file);
  });
  find("complete", HTMLElement).addEventListener("dragover", (event) => event.preventDefault());
  find("complete", HTMLElement).addEventListener("drop", (event) => {
    event.preventDefault();
    void loadFile(event.dataTransfer?.files[0]);
  });
  window.addEventListener("tab", () => isShown("complete") && showThumbnails(pictures()));
}

/** Copies a picture of the gallery to the canvas. */
export function completeThis(picture: Picture): void {
  canvas.load(picture.canvas, picture.size.width, picture.size.height);
}

function showGuidance(): void {
  if (model) guidance.show(model, { class: classes.chosen, particles: particles.count });
}

async function loadFile(file: File | undefined): Promise<void> {
  if (!file || !model) return;
  try {
    const image = await createImageBitmap(file);
    clearNotice();
    canvas.load(image, image.width, image.height);
    image.close();
  } catch {
    showNotice(`The browser cannot read ${file.name || "the file"} as an image.`);
  }
}

/** Offers the first pictures of the gallery that have the model's size. */
function showThumbnails(pictures: Picture[]): void {
  const fitting = pictures.filter(({ bytes }) => bytes.length === bytesOf(model)).slice(0, THUMBNAILS);
  find("from-gallery", HTMLElement).hidden = fitting.length === 0;
  find("thumbnails", HTMLElement).replaceChildren(
    ...fitting.map((picture, index) => {
      const copy = picture.copy(() => true);
      const button = make("button", { type: "button", className: "thumbnail" }, copy.canvas);
      button.setAttribute("aria-label", `Use image ${index + 1} of the gallery`);
      button.addEventListener("click", () => completeThis(picture));
      return button;
    }),
  );
}

async function complete(): Promise<void> {
  const n = readCount(find("complete-count", HTMLInputElement), MOST_COMPLETIONS);
  const seed = readSeed(find("complete-seed", HTMLInputElement));
  const temperature = readTemperature(find("complete-temperature", HTMLInputElement));
  const ofClass = classes.read();
  const guided = guidance.read();
  const rows = particles.read();
  const { image: original } = canvas;
  const occlusion = canvas.occlusion.copy();
  if (!occlusion.hidden) {
    throw new FormError(find("rows", HTMLInputElement), "No pixel is hidden. Keep fewer rows, or hide some pixels.");
  }
  clearNotice();
  const fields = { image: await base64(await png(original.canvas)), ...(await occlusion.fields()) };

  results.reset(model, original, occlusion, rows, n);
  const { channels } = original.size;
  const isPainted = (position: number) => !occlusion.isKnown(Math.floor(position / channels));
  const paint = ({ index, first, bytes }: Frame) => {
    const { picture } = results.completions[index]!;
    const added = picture.paint(first, bytes);
    // known bytes are in the frames too, but they are copied, not painted
    let count = 0;
    for (let position = picture.painted - added; position < picture.painted; position++) {
      if (isPainted(position)) count++;
    }
    return count;
  };
  const asked = { model: model.id, n, seed, temperature, class: ofClass, guidance: guided };
  const request = { type: "complete", ...asked, ...fields } as const;
  void runner.runOnServer(
    rows.map(({ particles }) => ({ ...request, particles })),
    n,
    n * occlusion.hidden * channels,
    {
      frame: paint,
      image: (index, finished) => results.finish(index, finished),
      ended: () => void results.drawOverlays(),
    },
  );
}
