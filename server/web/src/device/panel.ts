// On your device: downloads the model when it is asked to, paints with it in this browser, and lets the server paint
// the same beside it.

import { bytesOf, type Model } from "../api/models";
import { find, make } from "../elements";
import { sayError, withdraw } from "../look/notice";
import { whenModel } from "../look/model";
import { isShown } from "../look/tabs";
import { Mistake } from "../paint/mistake";
import { drawSeed, readCount, readSeed, readTemperature } from "../paint/wish";
import { Picture } from "../pictures/picture";
import { crisp } from "../pictures/scale";
import { differences, equalBytes, onTheServer, type Asked } from "./comparison";
import { Crew } from "./crew";
import { download, size } from "./download";

const MOST_IMAGES = 64;
const ROOM = 112; // CSS pixels for an image, less where three would not stand side by side
const GAP = 6;

let model: Model;
let crew: Crew | undefined; // has the model
let stop: (() => void) | undefined; // what goes on now
let last: Asked; // what the pictures are of
let pictures: Picture[] = [];

export function setUpDevice(): void {
  find("device-form", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    fromForm();
  });
  const temperature = find("device-temperature", HTMLInputElement);
  temperature.addEventListener("input", () => {
    find("device-temperature-shown", HTMLOutputElement).value = Number(temperature.value).toFixed(2);
  });
  find("device-stop", HTMLButtonElement).addEventListener("click", () => stop?.());
  find("device-compare", HTMLButtonElement).addEventListener("click", () => void during(compare));
  window.addEventListener("tab", () => void offer());
  whenModel((chosen) => {
    model = chosen;
    stop?.();
    stop = undefined;
    crew?.close();
    crew = undefined;
    lay(0);
    show(false);
    tell("device-line", "");
    tell("device-verdict", "");
    void offer();
  });
}

/** Says what the button will cost. */
async function offer(): Promise<void> {
  const button = find("device-go", HTMLButtonElement);
  if (!isShown("device") || !model) return;
  if (crew) {
    button.textContent = "Paint";
    return;
  }
  const of = model;
  try {
    const bytes = await size(of.id);
    if (of === model && !crew) button.textContent = `Download ${megabytes(bytes)} and paint`;
  } catch (error) {
    sayError(error);
  }
}

function fromForm(): void {
  try {
    const n = readCount(find("device-count", HTMLInputElement), MOST_IMAGES);
    const seed = readSeed(find("device-seed", HTMLInputElement)) || drawSeed();
    const temperature = readTemperature(find("device-temperature", HTMLInputElement));
    withdraw();
    last = { model: model.id, n, seed, temperature };
    void during(paint);
  } catch (error) {
    if (!(error instanceof Mistake)) throw error;
    error.show();
  }
}

/** Runs one thing that can be stopped; the form waits for its end. */
async function during(act: (stopped: AbortSignal) => Promise<void>): Promise<void> {
  const control = new AbortController();
  const own = (stop = () => control.abort());
  show(true);
  try {
    await act(control.signal);
  } catch (error) {
    if (!control.signal.aborted) sayError(error);
  }
  if (stop !== own) return; // another model was chosen meanwhile
  stop = undefined;
  show(false);
  void offer();
}

function show(busy: boolean): void {
  find("device-go", HTMLButtonElement).disabled = busy;
  find("device-stop", HTMLButtonElement).hidden = !busy;
  find("device-progress", HTMLProgressElement).hidden = true;
  find("device-compare", HTMLButtonElement).hidden = busy || !pictures.length || !pictures.every(({ done }) => done);
}

async function paint(stopped: AbortSignal): Promise<void> {
  const { n, seed, temperature } = last;
  const hands = (crew ??= await fetchCrew(stopped));
  void offer();
  lay(n);
  tell("device-verdict", "");
  const bytes = bytesOf(model);
  const began = performance.now();
  let painted = 0;
  stopped.addEventListener("abort", () => hands.stop());
  await hands.paint({ seed: BigInt(seed), first: 0, images: n, temperature }, (part) => {
    const each = part.bytes.length / part.images;
    for (let i = 0; i < part.images; i++) {
      pictures[part.first + i]!.paint(part.from, part.bytes.subarray(i * each, (i + 1) * each));
    }
    painted += part.bytes.length;
    const percent = Math.floor((100 * painted) / (n * bytes));
    tell("device-line", `Seed ${seed} · ${percent} % · ${rate(painted, seconds(began))} on this device`);
  });
}

/** Downloads and starts a crew; throws where that fails or is stopped. */
async function fetchCrew(stopped: AbortSignal): Promise<Crew> {
  const bar = find("device-progress", HTMLProgressElement);
  bar.max = await size(model.id);
  bar.hidden = false;
  const come = (bytes: number) => {
    bar.value = bytes;
    tell("device-line", `${megabytes(bytes)} of ${megabytes(bar.max)}`);
  };
  come(0);
  const files = await download(model.id, stopped, come);
  tell("device-line", "Starting");
  const opened = await Crew.open(files.runtime, files.model);
  bar.hidden = true;
  if (stopped.aborted) opened.close();
  stopped.throwIfAborted();
  return opened;
}

/** Lets the server paint the same, and says how the two differ. */
async function compare(stopped: AbortSignal): Promise<void> {
  const bytes = bytesOf(model);
  tell("device-verdict", "The server paints the same.");
  const server = onTheServer(last, bytes);
  stopped.addEventListener("abort", server.stop);
  const [theirs, took] = await server.painted;
  stopped.throwIfAborted();
  const ours = new Uint8Array(theirs.length);
  pictures.forEach((picture, index) => ours.set(picture.bytes, index * bytes));
  const where = differences(ours, theirs, bytes);
  where.forEach((at, index) => mark(pictures[index]!, at));
  const equal = where.filter((at) => at === null).length;
  const share = (100 * equalBytes(ours, theirs)).toFixed(2);
  const told = [`The server: ${rate(theirs.length, took)}`, `${equal} of ${last.n} images are the same`];
  tell("device-verdict", [...told, `${share} % of the bytes`].join(" · "));
}

function lay(n: number): void {
  pictures = Array.from({ length: n }, () => new Picture(model));
  const box = find("device-gallery", HTMLElement);
  const room = Math.min(ROOM, box.clientWidth / 3 - GAP);
  box.style.setProperty("--wide", `${model.width * crisp(model.width, room)}px`);
  box.replaceChildren(...pictures.map(({ canvas }, index) => make("figure", { title: `Image ${index + 1}` }, canvas)));
}

/** Marks a picture that differs from the server's from some byte on. */
function mark({ canvas }: Picture, at: number | null): void {
  if (at === null) return;
  canvas.parentElement!.classList.add("differs");
  canvas.parentElement!.title = `Differs from the server's from byte ${at} on, of ${bytesOf(model)}`;
}

function tell(id: string, text: string): void {
  find(id, HTMLElement).textContent = text;
}

const seconds = (since: number): number => (performance.now() - since) / 1000;
const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

function rate(bytes: number, seconds: number): string {
  const pixels = bytes / model.channels / seconds;
  return `${Math.round(pixels).toLocaleString("en", { maximumSignificantDigits: 3 })} pixels/s`;
}
