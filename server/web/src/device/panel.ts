// On your device: downloads the model on request, paints with it in this browser, and compares with the server.

import { bytesOf, type Model } from "../api/models";
import type { Frame } from "../api/job";
import { runJob } from "../api/websocket";
import { copyText, need } from "../base/browser";
import { find, make, onClick, pixelScale } from "../base/elements";
import { JobRunner } from "../jobs/job_runner";
import { linkTo, PaintForm, type PaintRequest } from "../jobs/paint_form";
import { columnsOf, png, save, sheet } from "../pictures/files";
import { Picture } from "../pictures/picture";
import { onModel } from "../shell/model";
import { clearNotice, showError } from "../base/notice";
import { isShown } from "../shell/tabs";
import { view } from "../viewer/viewer";
import { download, downloadSize } from "./download";
import { WorkerPool } from "./worker_pool";

const ROOM = 112; // CSS pixels for an image, less where three do not fit side by side
const GAP = 6;
const SCALE = 4; // of the sheet that is saved

let model: Model;
let pool: WorkerPool | undefined; // has loaded the model
let held: WorkerPool | undefined; // of a page without a server
let request: PaintRequest; // what the pictures show
let pictures: Picture[] = [];
let runner: JobRunner;
let form: PaintForm;

export function setUpDevice(): void {
  runner = new JobRunner("device");
  form = new PaintForm("device-", true);
  find("device-form", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    paintForm();
  });
  form.classes.onChange(() => form.showGuidance(model));
  onClick("device-compare", () => void run(compare));
  onClick("device-link", () => void copyLink());
  onClick("device-save", async () => save(await sheetFile(), `${request.model}-seed-${request.seed}.png`));
  window.addEventListener("tab", () => void labelButton());
  onModel((selected) => {
    model = selected;
    form.classes.fill(model.classes);
    form.fill({ guidance: model.defaults.guidance, temperature: model.defaults.temperature });
    form.showGuidance(model);
    runner.drop();
    pool?.close();
    pool = undefined;
    reset(0);
    runner.showMeter("");
    runner.showStatus("");
    showState();
    void labelButton();
  });
}

/** The workers, if they have loaded the selected model. */
export const openedPool = (): WorkerPool | undefined => held ?? pool;

/** The same, unless this tab paints with them. */
export const freePool = (): WorkerPool | undefined => (runner.isRunning ? undefined : pool);

/** Takes the workers of a page without a server, which has one model. */
export function hold(opened: WorkerPool): void {
  held = opened;
}

/** Shows the size of the download on the button. */
async function labelButton(): Promise<void> {
  const button = find("device-go", HTMLButtonElement);
  if (!isShown("device") || !model) return;
  if (pool) {
    button.textContent = "Paint";
    return;
  }
  const { id } = model;
  try {
    const bytes = await downloadSize(id);
    if (id === model.id && !pool) button.textContent = `Download ${megabytes(bytes)} and paint`;
  } catch (error) {
    showError(error, "device");
  }
}

function paintForm(): void {
  try {
    request = form.read();
    clearNotice();
    void run(paint);
  } catch (error) {
    showError(error, "device");
  }
}

/** Runs one job; the form is disabled until it ends. */
async function run(job: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const ended = runner.run(job);
  showState();
  await ended;
  showState();
  void labelButton();
}

function showState(): void {
  const canCompare = !runner.isRunning && pictures.length > 0 && pictures.every(({ done }) => done);
  find("device-go", HTMLButtonElement).disabled = runner.isRunning;
  find("device-compare", HTMLButtonElement).hidden = !canCompare;
  find("device-link", HTMLButtonElement).hidden = !canCompare;
  find("device-save", HTMLButtonElement).hidden = !canCompare;
  if (!runner.isRunning) find("device-progress", HTMLProgressElement).hidden = true;
}

async function paint(signal: AbortSignal): Promise<void> {
  const { n, seed, temperature, guidance = 1 } = request;
  const labels = form.classes.labelsOf(request);
  const bytes = bytesOf(model);
  const opened = (pool ??= await openPool(signal));
  void labelButton();
  reset(n);
  runner.showStatus("");
  const start = performance.now();
  let painted = 0;
  const bits = new Float64Array(n); // of each image
  signal.addEventListener("abort", () => opened.stop());
  await opened.paint({ seed: BigInt(seed), first: 0, labels, temperature, guidance }, ({ frames, figures, first }) => {
    for (const frame of frames) painted += pictures[frame.index]!.paint(frame.first, frame.bytes);
    bits.set(figures.map((of) => of.bits), first);
    const percent = Math.floor((100 * painted) / (n * bytes));
    const parts = [`Seed ${seed}`, `${percent} %`, `${rate(painted, start)} in this browser`];
    if (painted === n * bytes) parts.push(`${(bits.reduce((sum, of) => sum + of) / painted).toFixed(3)} bits/dim`);
    runner.showMeter(parts.join(" · "));
  });
}

/** Downloads kernel and model and starts the workers; throws if that fails or is aborted. */
async function openPool(signal: AbortSignal): Promise<WorkerPool> {
  need("painting in it", "Worker", "WebAssembly");
  const bar = find("device-progress", HTMLProgressElement);
  bar.max = await downloadSize(model.id);
  bar.hidden = false;
  const show = (bytes: number) => {
    bar.value = bytes;
    runner.showMeter(`${megabytes(bytes)} of ${megabytes(bar.max)}`);
  };
  show(0);
  const files = await download(model.id, signal, show);
  runner.showMeter("Loading the model");
  const opened = await WorkerPool.open(files.kernel, files.model);
  bar.hidden = true;
  if (signal.aborted) opened.close();
  signal.throwIfAborted();
  return opened;
}

/** Copies a link that has the server paint the same images. */
async function copyLink(): Promise<void> {
  const isCopied = await copyText(linkTo(request));
  runner.showStatus(isCopied ? "Link copied: it opens with the same pictures." : "The browser does not allow copying.");
}

/** A PNG of all images, whose recipe names what paints here. */
async function sheetFile(): Promise<Blob> {
  const { ofSheet, recipeOf, withRecipe } = await import("../recipe/lazy");
  const recipe = recipeOf({ ...model, digest: pool!.model.digest }, request)!;
  const names = form.classes.labelsOf(request).map((label) => model.classes[label - 1] ?? null);
  return withRecipe(await png(sheet(pictures, SCALE)), ofSheet(recipe, names, columnsOf(names.length), SCALE));
}

/** Paints the same images on the server and shows how many of the images and bytes are equal. */
async function compare(signal: AbortSignal): Promise<void> {
  runner.showStatus("Painting on the server.");
  const start = performance.now();
  const total = request.n * bytesOf(model);
  let [equalImages, equalBytes] = [0, 0];
  const theirs = pictures.map(({ size }) => new Picture(size));
  const frame = ({ index, first, bytes }: Frame) => void theirs[index]!.paint(first, bytes);
  if (await runJob({ type: "generate", ...request }, { frame }, signal)) return;
  const server = rate(total, start);
  pictures.forEach((picture, index) => {
    const isEqual = (byte: number, at: number) => byte === theirs[index]!.bytes[at];
    const first = picture.bytes.findIndex((byte, at) => !isEqual(byte, at));
    if (first < 0) equalImages++;
    else markDifference(picture, first);
    equalBytes += picture.bytes.filter(isEqual).length;
  });
  const share = ((100 * equalBytes) / total).toFixed(2);
  runner.showStatus(`Server: ${server} · ${equalImages} of ${request.n} images equal · ${share} % of bytes equal`);
}

/** Replaces all pictures by `n` empty ones. */
function reset(n: number): void {
  pictures = Array.from({ length: n }, () => new Picture(model));
  const box = find("device-gallery", HTMLElement);
  const room = n && Math.min(ROOM, box.clientWidth / 3 - GAP); // asked for while the page loads, it would take milliseconds
  box.style.setProperty("--wide", `${model.width * pixelScale(model.width, room)}px`);
  box.replaceChildren(
    ...pictures.map(({ canvas }, index) => {
      const name = `Image ${index + 1}`;
      const button = make("button", { type: "button", className: "stack", title: name, ariaLabel: name }, canvas);
      button.addEventListener("click", () => open(index));
      return button;
    }),
  );
}

function open(index: number): void {
  const { n, seed, temperature, guidance = 1, class: name } = request;
  const ofClass = name === undefined ? "" : ` · class ${name}`;
  const viewed = pictures.map((picture, at) => ({
    picture,
    title: `Image ${at + 1} of ${n}`,
    figures: `${model.id}${ofClass} · seed ${seed} · temperature ${temperature} · guidance ${guidance} · in this browser`,
    model: model.id,
    file: `${model.id}-device-seed-${seed}-image-${at}`,
    opener: picture.canvas.parentElement!,
  }));
  view(viewed, index);
}

/** Marks a picture whose bytes differ from the server's, the first at position `at`. */
function markDifference({ canvas, bytes }: Picture, at: number): void {
  canvas.parentElement!.classList.add("differs");
  canvas.parentElement!.title = `Differs from the server's image from byte ${at} of ${bytes.length} on`;
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

/** Pixels per second since `start`, as text. */
function rate(bytes: number, start: number): string {
  const pixels = bytes / model.channels / ((performance.now() - start) / 1000);
  return `${Math.round(pixels).toLocaleString("en", { maximumSignificantDigits: 3 })} pixels/s`;
}
