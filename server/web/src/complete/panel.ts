// Complete: a picture that is drawn, brought or taken from the gallery, a part of it hidden, and what the model makes
// of the rest.

import { bytesOf, type Model } from "../api/models";
import { begin } from "../api/stream";
import { find, make } from "../elements";
import { say, sayError, withdraw } from "../look/notice";
import { isShown } from "../look/tabs";
import { whenModel } from "../look/model";
import { Meter } from "../paint/meter";
import { Mistake } from "../paint/mistake";
import { drawSeed, readCount, readSeed } from "../paint/wish";
import { png } from "../pictures/files";
import type { Picture } from "../pictures/picture";
import { Easel } from "./easel";
import { base64 } from "./occlusion";
import { Results } from "./results";

const MOST_COMPLETIONS = 32;
const THUMBNAILS = 12;

let model: Model; // until there is one, the page is inert
let stop: (() => void) | undefined;
let meter: Meter | undefined;
let easel: Easel;
let results: Results;

/** `pictures` gives those of the gallery that are done. */
export function setUpComplete(pictures: () => Picture[]): void {
  easel = new Easel();
  results = new Results();
  whenModel((chosen) => {
    easel.fit(chosen);
    model = chosen;
    find("colour-field", HTMLElement).hidden = chosen.channels === 1;
  });
  find("complete-form", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    complete().catch((error) => (error instanceof Mistake ? error.show() : sayError(error)));
  });
  const temperature = find("complete-temperature", HTMLInputElement);
  const shown = find("complete-temperature-shown", HTMLOutputElement);
  temperature.addEventListener("input", () => (shown.value = Number(temperature.value).toFixed(2)));
  find("complete-stop", HTMLButtonElement).addEventListener("click", () => stop?.());
  find("clear", HTMLButtonElement).addEventListener("click", () => easel.clear());
  find("invert", HTMLButtonElement).addEventListener("click", () => easel.invert());
  find("uncover", HTMLButtonElement).addEventListener("click", () => easel.uncover());
  const upload = find("upload", HTMLInputElement);
  upload.addEventListener("change", () => {
    void bring(upload.files?.[0]);
    upload.value = "";
  });
  document.addEventListener("paste", (event) => {
    const file = [...(event.clipboardData?.files ?? [])].find(({ type }) => type.startsWith("image/"));
    if (file && isShown("complete")) void bring(file);
  });
  find("complete", HTMLElement).addEventListener("dragover", (event) => event.preventDefault());
  find("complete", HTMLElement).addEventListener("drop", (event) => {
    event.preventDefault();
    void bring(event.dataTransfer?.files[0]);
  });
  window.addEventListener("tab", () => isShown("complete") && offer(pictures()));
}

/** Takes a picture of the gallery onto the easel. */
export function completeThis(picture: Picture): void {
  easel.take(picture.canvas, picture.size.width, picture.size.height);
}

/** Takes a file onto the easel. */
async function bring(file: File | undefined): Promise<void> {
  if (!file || !model) return;
  try {
    const image = await createImageBitmap(file);
    withdraw();
    easel.take(image, image.width, image.height);
    image.close();
  } catch {
    say(`The browser cannot read ${file.name || "this"} as a picture.`);
  }
}

/** Shows the first of the gallery's pictures, to be taken. */
function offer(pictures: Picture[]): void {
  const fitting = pictures.filter(({ bytes }) => bytes.length === bytesOf(model)).slice(0, THUMBNAILS);
  find("from-gallery", HTMLElement).hidden = fitting.length === 0;
  find("thumbnails", HTMLElement).replaceChildren(
    ...fitting.map((picture, index) => {
      const copy = picture.copy(() => true);
      const button = make("button", { type: "button", className: "thumbnail" }, copy.canvas);
      button.setAttribute("aria-label", `Take image ${index + 1} of the gallery`);
      button.addEventListener("click", () => completeThis(picture));
      return button;
    }),
  );
}

async function complete(): Promise<void> {
  const n = readCount(find("complete-count", HTMLInputElement), MOST_COMPLETIONS);
  const seed = readSeed(find("complete-seed", HTMLInputElement)) || drawSeed();
  const temperature = Number(find("complete-temperature", HTMLInputElement).value);
  const occlusion = easel.occlusion.copy();
  if (occlusion.empty) {
    throw new Mistake(find("rows", HTMLInputElement), "Nothing is hidden: keep fewer rows, or paint over a part.");
  }
  withdraw();
  stop?.();
  const original = easel.seen;
  const fields = { image: await base64(await png(original.canvas)), ...(await occlusion.fields()) };

  results.lay(model.id, original, occlusion, n);
  const unknown = bytesOf(model) - model.channels * occlusion.over.filter((_, pixel) => occlusion.knows(pixel)).length;
  const running = (meter = new Meter(n, n * unknown));
  const isCurrent = () => meter === running;
  find("complete-stop", HTMLButtonElement).hidden = false;
  speak(`Painting ${n} completions.`);
  const end = (sentence: string) => {
    running.end();
    if (!isCurrent()) return;
    stop = undefined;
    find("complete-stop", HTMLButtonElement).hidden = true;
    tell();
    speak(sentence);
  };
  stop = begin(
    { type: "complete", model: model.id, n, seed, temperature, ...fields },
    {
      frame: ({ index, first, bytes }) => {
        if (!isCurrent()) return;
        const { picture } = results.completions[index]!;
        const from = Math.max(first, picture.painted);
        const isPainted = (position: number) => !occlusion.knows(Math.floor(position / model.channels));
        let painted = 0;
        for (let position = from; position < first + bytes.length; position++) painted += Number(isPainted(position));
        if (painted) running.painted(painted);
        picture.paint(first, bytes);
      },
      image: (index, bitsPerDim) => {
        if (!isCurrent()) return;
        running.done(index, bitsPerDim);
        results.finish(index, bitsPerDim);
      },
      ended: (cancelled) => {
        end(cancelled ? "Stopped." : `Done. ${running.line}`);
        if (isCurrent()) void results.cover();
      },
      failed: (refusal) => {
        end("");
        if (isCurrent()) sayError(refusal);
      },
    },
  );
  requestAnimationFrame(tell);
}

function tell(): void {
  find("complete-meter", HTMLElement).textContent = meter!.line;
  if (stop) requestAnimationFrame(tell);
}

function speak(sentence: string): void {
  find("complete-spoken", HTMLElement).textContent = sentence;
}
