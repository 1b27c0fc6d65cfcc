// Paint: the form, the gallery that fills as bytes arrive, and what can be done with the images afterwards.

import { bytesOf, type Model } from "../api/models";
import { find, onClick } from "../elements";
import { setUpSlider } from "../jobs/form_fields";
import { JobRunner } from "../jobs/job_runner";
import { array, save, sheet } from "../pictures/files";
import { onModel } from "../shell/model";
import { clearNotice, showError, showNotice } from "../shell/notice";
import { isShown } from "../shell/tabs";
import { Gallery } from "./gallery";
import {
  fillForm,
  linkTo,
  nameOfFile,
  paintClass,
  paintGuidance,
  readForm,
  readLink,
  type GenerateRequest,
} from "./request";
import { showImage } from "./viewer";

let model: Model; // the page is inert until there is one
let last: GenerateRequest; // the one that the gallery shows
let runner: JobRunner;

const gallery = new Gallery((index) => showImage(gallery.tiles, index, last));

/** The pictures of the gallery that are finished. */
export const finishedPictures = () => gallery.pictures.filter(({ done }) => done);

export function setUpPaint(): void {
  runner = new JobRunner("paint");
  find("paint-form", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    clearNotice();
    paintForm();
  });
  paintClass.onChange(() => {
    showGuidance();
    find("paint-form", HTMLFormElement).requestSubmit();
  });
  setUpSlider("temperature");
  onClick("again", () => paint(last));
  onClick("copy-link", () => void copyLink());
  onClick("save-sheet", async () => save(await sheet(gallery.pictures), `${nameOfFile(last)}.png`));
  onClick("save-array", () => save(array(gallery.pictures), `${nameOfFile(last)}.npy`));

  let first = true;
  onModel((selected) => {
    model = selected;
    paintClass.fill(model.classes);
    fillForm(first ? { ...model.defaults, ...readLink() } : { guidance: model.defaults.guidance });
    showGuidance();
    if (isShown("paint")) paintForm();
    first = false;
  });
}

const showGuidance = () => paintGuidance.show(model, { class: paintClass.chosen, particles: 1 });

function paintForm(): void {
  try {
    paint(readForm());
  } catch (error) {
    showError(error);
  }
}

function paint(request: GenerateRequest): void {
  last = request;
  gallery.reset(request.n, model);
  find("after", HTMLElement).hidden = true;
  void runner.runOnServer([{ type: "generate", ...request }], request.n, request.n * bytesOf(model), {
    started: ({ model, seed, n }) => history.replaceState(null, "", linkTo({ ...request, model, seed, n })),
    frame: ({ index, first, bytes }) => gallery.paint(index, first, bytes),
    image: (index, finished) => gallery.finish(index, finished),
    ended: (cancelled) => {
      gallery.draw();
      find("after", HTMLElement).hidden = cancelled;
    },
  });
}

async function copyLink(): Promise<void> {
  const button = find("copy-link", HTMLButtonElement);
  try {
    await navigator.clipboard.writeText(new URL(linkTo(last), location.href).href);
    runner.showStatus("Link copied.");
    button.textContent = "Link copied";
    setTimeout(() => (button.textContent = "Copy link"), 2000);
  } catch {
    showNotice("The browser does not allow copying. The address of this page is the link.");
  }
}
