// How it works: an image is painted; then one of its steps is shown at a time, from the pixels that it reads to the byte
// that is drawn, with the numbers of one layer and head. This code is loaded when the tab is first opened.

import type { Model } from "../api/models";
import { runJob } from "../api/websocket";
import { enlarge, find, make, onClick, pixelScale, setText } from "../elements";
import { randomSeed } from "../jobs/paint_form";
import { Picture } from "../pictures/picture";
import { onModel } from "../shell/model";
import { clearNotice, showError } from "../shell/notice";
import { isShown } from "../shell/tabs";
import markup from "./how.html?raw";
import { showEquations } from "./equations";
import { showStep, showWeights } from "./step_view";
import { StepSource } from "./step_source";

const ROOM = 280; // CSS pixels for the picture
const PLAY_MS = 160; // between two steps
const ANY = "any";

let model: Model | undefined;
let seed = "";
let className: string | null = null; // of the image, drawn
let picture: Picture | undefined;
let source: StepSource | undefined; // of the image that is painted
let step = 0;
let control: AbortController | undefined; // of the current job
let playing: number | undefined;

export function setUpHow(): void {
  find("how", HTMLElement).innerHTML = markup;
  showEquations("categorical");
  for (const id of ["layer", "head"]) find(id, HTMLSelectElement).addEventListener("change", () => void inspect(step));
  onClick("watch", () => void paint());
  const moves: Record<string, () => number> = {
    first: () => 0,
    up: () => step - source!.row,
    back: () => step - 1,
    next: () => step + 1,
    down: () => step + source!.row,
    last: () => Infinity,
  };
  for (const [name, to] of Object.entries(moves)) onClick(`how-${name}`, () => source && goTo(to()));
  find("weights", HTMLDetailsElement).addEventListener("toggle", show);
  onClick("how-play", () => (playing === undefined ? play() : pause()));
  const moment = find("moment", HTMLInputElement);
  moment.addEventListener("input", () => goTo(Number(moment.value)));
  for (const id of ["cell-row", "cell-column"]) find(id, HTMLInputElement).addEventListener("input", show);
  const arrows = { ArrowLeft: "back", ArrowRight: "next", ArrowUp: "up", ArrowDown: "down" };
  const keys: Record<string, string> = { ...arrows, Home: "first", End: "last" };
  find("how", HTMLElement).addEventListener("keydown", (event) => {
    const name = keys[event.key];
    const target = event.target as HTMLElement;
    const isOther = target instanceof HTMLSelectElement || target instanceof HTMLPreElement || isNumber(target);
    if (!name || isOther || event.ctrlKey || event.metaKey || event.altKey || !source) return;
    event.preventDefault();
    goTo(moves[name]!());
  });
  find("watched", HTMLCanvasElement).addEventListener("click", ({ offsetX, offsetY, currentTarget }) => {
    if (!source || !model) return;
    const { clientWidth, clientHeight } = currentTarget as HTMLCanvasElement;
    const column = Math.floor((offsetX / clientWidth) * model.width);
    const row = Math.floor((offsetY / clientHeight) * model.height);
    goTo(Math.floor(((row * model.width + column) * model.channels - source.layout.first_byte) / source.layout.step_bytes));
  });
  find("heat-s", HTMLCanvasElement).addEventListener("click", ({ offsetX, offsetY, currentTarget }) => {
    const { clientWidth, clientHeight, width, height } = currentTarget as HTMLCanvasElement;
    find("cell-row", HTMLInputElement).value = String(1 + Math.floor((offsetY / clientHeight) * height));
    find("cell-column", HTMLInputElement).value = String(1 + Math.floor((offsetX / clientWidth) * width));
    show();
  });
  window.addEventListener("tab", () => (isShown("how") ? model && !picture && void paint() : pause()));
  window.addEventListener("resize", show);
  onModel((selected) => {
    model = selected;
    picture = source = undefined;
    fillSelect("layer", selected.layers);
    fillSelect("head", selected.heads);
    if (isShown("how")) void paint();
  });
}

const isNumber = (target: HTMLElement) => target instanceof HTMLInputElement && target.type === "number";

function fillSelect(id: string, count: number): void {
  const options = Array.from({ length: count }, (_, index) => make("option", { value: String(index) }, `${index + 1}`));
  find(id, HTMLSelectElement).replaceChildren(...options);
}

/** Paints one image, of any class, and follows a step in its middle. */
async function paint(): Promise<void> {
  control?.abort();
  pause();
  clearNotice();
  const { signal } = (control = new AbortController());
  const { id, classes, channels } = model!;
  source = undefined;
  const painted = (picture = new Picture(model!));
  drawImage(0);
  className = null;
  seed = randomSeed();
  const drawn = classes.length > 0 && !classes.includes(ANY) ? ANY : "none";
  setText("how-status", "Painting an image.");
  try {
    const listener = {
      frame: ({ first, bytes }: { first: number; bytes: Uint8Array }) => {
        painted.paint(first, bytes);
        if (!signal.aborted) drawImage(painted.pixels);
      },
      image: (_: number, finished: { class: string | null }) => void (className = finished.class),
    };
    const cancelled = await runJob({ type: "generate", model: id, n: 1, seed, class: drawn }, listener, signal);
    if (cancelled || signal.aborted) return;
    const middle = painted.bytes.length >> 1;
    const bright = painted.bytes.findIndex((byte, at) => at >= middle && byte > 127);
    await inspect((bright < 0 ? middle : bright) / channels, true);
  } catch (error) {
    if (signal.aborted) return;
    setText("how-status", "");
    showError(error, "how");
  }
}

/** Asks for the numbers of the selected layer and head, and shows those of a step, or those of a pixel. */
async function inspect(at: number, isPixel = false): Promise<void> {
  if (!picture?.done) return;
  pause();
  const [layer, head] = [selected("layer"), selected("head")];
  const opened = new StepSource(model!, picture, className, layer, head);
  source = undefined;
  setText("how-status", "Asking the server for the numbers of this image.");
  const { signal } = control!;
  try {
    await opened.open();
  } catch (error) {
    setText("how-status", "");
    if (!signal.aborted) showError(error, "how");
    return;
  }
  const isCurrent = !signal.aborted && layer === selected("layer") && head === selected("head");
  if (!isCurrent) return;
  source = opened;
  find("stepper", HTMLElement).inert = false;
  setText("how-status", className === null ? "" : `An image of class ${className}.`);
  const { first_byte: firstByte, step_bytes: stepBytes, predicts } = source.layout;
  showEquations(predicts);
  find("moment", HTMLInputElement).max = String(source.count - 1);
  for (const id of ["cell-row", "cell-column"]) find(id, HTMLInputElement).value = "";
  goTo(isPixel ? Math.floor((Math.floor(at) * model!.channels - firstByte) / stepBytes) : at);
}

const selected = (id: string): number => Number(find(id, HTMLSelectElement).value);

/** Goes to a step, or to the end that is nearest to it. */
function goTo(to: number): void {
  step = Math.max(0, Math.min(to, source!.count - 1));
  find("moment", HTMLInputElement).value = String(step);
  show();
}

function play(): void {
  if (!source) return;
  if (step === source.count - 1) goTo(0);
  setPlay(true);
  playing = window.setInterval(() => {
    if (!source) return pause();
    if (!source.step(step)) return; // it is still on its way
    if (step === source.count - 1) return pause();
    goTo(step + 1);
  }, PLAY_MS);
}

function pause(): void {
  window.clearInterval(playing);
  playing = undefined;
  setPlay(false);
}

function setPlay(isPlaying: boolean): void {
  const button = find("how-play", HTMLButtonElement);
  button.setAttribute("aria-pressed", String(isPlaying));
  button.textContent = isPlaying ? "Pause" : "Play";
}

/** Shows the current step, as soon as its numbers are there; asks for those of the next row already. */
function show(): void {
  const [shown, at] = [source, step];
  if (!shown || !picture) return;
  const { first_byte: firstByte, step_bytes: stepBytes } = shown.layout;
  const position = shown.position(at);
  const pixel = Math.floor(position / picture.size.channels);
  const { width } = picture.size;
  drawImage(pixel, pixel, shown.layout.window);
  const place = `Step ${at + 1} of ${shown.count}: row ${Math.floor(pixel / width) + 1}, column ${(pixel % width) + 1}`;
  const channel = stepBytes === 1 && picture.size.channels === 3 ? `, ${["red", "green", "blue"][position % 3]}` : "";
  setText("how-place", place + channel + (firstByte && at === 0 ? " (byte 1 is drawn from a histogram)" : ""));
  find("moment", HTMLInputElement).setAttribute("aria-valuetext", place + channel);
  const numbers = shown.step(at);
  find("how", HTMLElement).setAttribute("aria-busy", String(!numbers));
  if (numbers) {
    find("stages", HTMLElement).hidden = find("why", HTMLElement).hidden = false;
    showStep(shown, numbers, at, picture, seed);
    const next = Math.min(at + shown.row, shown.count - 1);
    if (playing !== undefined && !shown.step(next)) shown.load(next).catch(() => undefined);
    if (find("weights", HTMLDetailsElement).open) void weigh(shown, at);
    return;
  }
  shown.load(at).then(
    () => source === shown && step === at && show(),
    (error) => {
      pause();
      if (source === shown) showError(error, "how");
    },
  );
}

/** Shows what the current step reads, as soon as the steps before it are there. */
async function weigh(shown: StepSource, at: number): Promise<void> {
  setText("say-weights", "Asking for the keys of all steps before.");
  try {
    const weights = await shown.weights(at);
    if (source === shown && step === at) showWeights(shown, weights, model!);
  } catch (error) {
    if (source === shown) showError(error, "how");
  }
}

/** Draws the pixels before `pixels`; with `current`, that pixel framed, and the window that it reads. */
function drawImage(pixels: number, current?: number, window?: [number, number] | null): void {
  const canvas = find("watched", HTMLCanvasElement);
  const { width, height } = picture!.size;
  const scale = pixelScale(width, ROOM);
  const fine = Math.max(1, Math.round(scale * (globalThis.devicePixelRatio || 1))); // canvas pixels for one of the image
  Object.assign(canvas, { width: width * fine, height: height * fine });
  enlarge(canvas, scale / fine);
  const context = canvas.getContext("2d")!;
  context.imageSmoothingEnabled = false;
  const image = picture!.copy((pixel) => pixel < pixels).canvas;
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.setAttribute("aria-label", `Image so far: ${pixels} of ${width * height} pixels`);
  if (current === undefined) return;
  const [row, column] = [Math.floor(current / width), current % width];
  context.lineWidth = Math.max(1, fine / 6);
  if (window) {
    const [rows, columns] = window;
    const [top, left] = [Math.max(0, row - rows), Math.max(0, column - columns)];
    const right = Math.min(width, column + columns + 1);
    context.strokeStyle = "#3176c9";
    context.strokeRect(left * fine, top * fine, (right - left) * fine, (row - top + 1) * fine);
  }
  context.fillStyle = "#d9532c";
  context.fillRect(column * fine, row * fine, fine, fine);
}
