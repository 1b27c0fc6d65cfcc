// How it works: an image is painted, or is the visitor's; then one of its steps is shown at a time, from the pixels that it
// reads to the byte that is drawn: as a whole, of which each part opens one of six screens with the numbers of one layer and
// head. The address has all of it, so that a link shows the same. This code is loaded when the tab is first opened.

import "../style/how.css";
import type { Model } from "../api/models";
import { runJob } from "../api/websocket";
import { enlarge, find, make, onClick, pixelScale, setText } from "../base/elements";
import { fromBase64, toBase64Url } from "../base/base64";
import { isSeed, randomSeed } from "../jobs/paint_form";
import { Picture } from "../pictures/picture";
import { onAddress, onModel } from "../shell/model";
import { clearNotice, showError } from "../base/notice";
import { addressOf, detailsOf, goTo as goToAddress, isShown } from "../shell/tabs";
import markup from "./how.html?raw";
import { showEquations } from "./equations";
import { setUpRace } from "./race";
import { showStep, showWeights } from "./step_view";
import { StepSource } from "./step_source";

const ROOM = 280; // CSS pixels for the picture
const PLAY_MS = 160; // between two steps
const ANY = "any";
const QUIETLY = { preventScroll: true, focusVisible: false };
const WEIGHED = 4; // the screen on which the weights are laid over the picture

let model: Model | undefined;
let seed: string | undefined; // undefined where the image is the visitor's
let className: string | null = null; // of the image, drawn
let picture: Picture | undefined;
let source: StepSource | undefined; // of the image that is painted
let step = 0;
let screen = 0; // the whole
let shownFields = ""; // of the address, for what is shown
let laidOver: Float32Array | undefined; // the weight of each pixel, where the picture shows them
let control: AbortController | undefined; // of the current job
let playing: number | undefined;

export function setUpHow(): void {
  find("how", HTMLElement).innerHTML = markup;
  showEquations("categorical");
  setUpRace();
  window.addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll<HTMLDetailsElement>("#how details")) fold.open = true;
  });
  for (const id of ["layer", "head"]) find(id, HTMLSelectElement).addEventListener("change", () => void inspect(step));
  onClick("watch", () => void paint());
  find("screens", HTMLFieldSetElement).addEventListener("change", () => {
    showScreen(Number(document.querySelector<HTMLInputElement>("#screens :checked")!.value));
  });
  for (const part of document.querySelectorAll<HTMLButtonElement>("#how [value].aside, #whole button")) {
    part.addEventListener("click", () => {
      showScreen(Number(part.value));
      document.querySelectorAll<HTMLInputElement>("#screens input")[screen]!.focus(QUIETLY);
    });
  }
  showScreen(screen);
  const moves: Record<string, () => number> = {
    first: () => 0,
    up: () => step - source!.row,
    back: () => step - 1,
    next: () => step + 1,
    down: () => step + source!.row,
    last: () => Infinity,
  };
  for (const [name, to] of Object.entries(moves)) onClick(`how-${name}`, () => source && goTo(to()));
  onClick("how-play", () => (playing === undefined ? play() : pause()));
  const moment = find("moment", HTMLInputElement);
  moment.addEventListener("input", () => goTo(Number(moment.value)));
  for (const id of ["cell-row", "cell-column"]) find(id, HTMLInputElement).addEventListener("input", show);
  const arrows = { ArrowLeft: "back", ArrowRight: "next", ArrowUp: "up", ArrowDown: "down" };
  const keys: Record<string, string> = { ...arrows, Home: "first", End: "last" };
  find("how", HTMLElement).addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const isOther = target instanceof HTMLSelectElement || target instanceof HTMLPreElement || hasOwnKeys(target);
    const turned = { PageUp: screen - 1, PageDown: screen + 1 }[event.key];
    if (turned !== undefined && !isOther && source) {
      event.preventDefault();
      return showScreen(turned);
    }
    const name = keys[event.key];
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
  find("watched", HTMLCanvasElement).addEventListener("pointermove", ({ offsetX, offsetY, currentTarget }) => {
    const { clientWidth, clientHeight } = currentTarget as HTMLCanvasElement;
    if (model) sayPixel(Math.floor((offsetY / clientHeight) * model.height), Math.floor((offsetX / clientWidth) * model.width));
  });
  find("watched", HTMLCanvasElement).addEventListener("pointerleave", sayLegend);
  find("heat-s", HTMLCanvasElement).addEventListener("click", ({ offsetX, offsetY, currentTarget }) => {
    const { clientWidth, clientHeight, width, height } = currentTarget as HTMLCanvasElement;
    find("cell-row", HTMLInputElement).value = String(1 + Math.floor((offsetY / clientHeight) * height));
    find("cell-column", HTMLInputElement).value = String(1 + Math.floor((offsetX / clientWidth) * width));
    show();
  });
  window.addEventListener("tab", () => (isShown("how") ? model && restore() : pause()));
  onAddress(() => isShown("how") && restore());
  window.addEventListener("resize", show);
  onModel((selected, isChosen) => {
    model = selected;
    picture = source = undefined;
    if (isChosen) addressOf("how", new URLSearchParams()); // it was of another model
    shownFields = "";
    // of the shipped models, these read the most specific pixels; the first layer's heads read about everything
    fillSelect("layer", selected.layers, 2);
    fillSelect("head", selected.heads, selected.heads);
    if (isShown("how")) isChosen ? void paint() : restore();
  });
}

/** Whether arrow keys in an element have a meaning of their own. */
const hasOwnKeys = (target: HTMLElement) =>
  target instanceof HTMLInputElement && ["number", "radio"].includes(target.type);

/** Shows what the address says, or paints an image where it says nothing and there is none. */
function restore(): void {
  const fields = detailsOf("how");
  if (!fields.has("seed") && !fields.has("image")) return picture ? undefined : void paint();
  if (String(fields) === shownFields) return;
  try {
    if (fields.has("model") && fields.get("model") !== model!.id) {
      throw new Error(`This server does not have the model ${fields.get("model")} of the link.`);
    }
    if (!fields.has("image") && !isSeed(fields.get("seed")!)) throw new Error("The seed of this link is not a seed.");
    const isFollowed = fields.has("image") && !fields.has("step"); // with the layer and head that are selected
    for (const id of ["layer", "head"]) if (!isFollowed) choose(id, fields.get(id) ?? "1");
    showScreen(Number(fields.get("screen")));
    // who opens a link goes on with the arrow keys, or with a presenter, which sends Page Up and Page Down
    if (document.activeElement === document.body) find("moment", HTMLInputElement).focus(QUIETLY);
    const image = fields.get("image");
    void paint(fields, image === null ? undefined : pictureOf(image));
  } catch (error) {
    showError(error, "how");
  }
}

/** Selects a layer or a head by its number, from 1. */
function choose(id: string, number: string): void {
  const option = [...find(id, HTMLSelectElement).options].find(({ text }) => text === number);
  if (!option) throw new Error(`The model has no ${id} ${number}.`);
  option.selected = true;
}

/** Shows one of the screens, the nearest one where there is none of that number. */
function showScreen(number: number): void {
  const all = [...document.querySelectorAll<HTMLElement>("#how .stages > li")];
  screen = Math.max(0, Math.min(Math.round(number) || 0, all.length - 1));
  all.forEach((each, index) => each.classList.toggle("shown", index === screen));
  document.querySelectorAll<HTMLInputElement>("#screens input")[screen]!.checked = true;
  if (!source) return;
  writeAddress();
  show();
}

/** Writes what is shown into the address. */
function writeAddress(): void {
  const place = { layer: selected("layer") + 1, head: selected("head") + 1, step: step + 1, screen };
  const numbers = Object.entries(place).map(([name, value]): [string, string] => [name, String(value)]);
  const image: [string, string] = seed === undefined ? ["image", toBase64Url(picture!.bytes)] : ["seed", seed];
  const fields = new URLSearchParams([["model", model!.id], image, ...numbers]);
  shownFields = String(fields);
  const address = addressOf("how", fields);
  if (isShown("how")) goToAddress(address, false);
}

/** Fills a select element with the numbers from 1 to `count`, of which `chosen` is selected, or the last. */
function fillSelect(id: string, count: number, chosen: number): void {
  const options = Array.from({ length: count }, (_, index) => make("option", { value: String(index) }, `${index + 1}`));
  find(id, HTMLSelectElement).replaceChildren(...options);
  find(id, HTMLSelectElement).selectedIndex = Math.min(chosen, count) - 1;
}

/** The visitor's image of a link. */
function pictureOf(text: string): Picture {
  const { width, height, channels } = model!;
  let bytes: Uint8Array | undefined;
  try {
    bytes = fromBase64(text);
  } catch {
    // said below
  }
  if (bytes?.length === width * height * channels) return Picture.of({ width, height, channels }, bytes);
  throw new Error("The picture of this link does not have the size of the model's images.");
}

/** Paints one image, of any class, and follows a step in its middle; or the image and the step of a link, or of the
 * visitor. */
async function paint(link?: URLSearchParams, own?: Picture): Promise<void> {
  control?.abort();
  stop();
  clearNotice();
  const { signal } = (control = new AbortController());
  const { id, classes, channels } = model!;
  source = undefined;
  const painted = (picture = own ?? new Picture(model!));
  drawImage(painted.pixels);
  className = null;
  seed = own ? undefined : (link?.get("seed") ?? randomSeed());
  if (link) shownFields = String(link);
  const drawn = classes.length > 0 && !classes.includes(ANY) ? ANY : "none";
  if (seed !== undefined) setText("how-status", "Painting an image.");
  try {
    const listener = {
      frame: ({ first, bytes }: { first: number; bytes: Uint8Array }) => {
        painted.paint(first, bytes);
        if (!signal.aborted) drawImage(painted.pixels);
      },
      image: (_: number, finished: { class: string | null }) => void (className = finished.class),
    };
    // at the temperature of the probabilities that are shown
    const request = { type: "generate", model: id, n: 1, class: drawn, temperature: 1 } as const;
    const cancelled = seed !== undefined && (await runJob({ ...request, seed }, listener, signal));
    if (cancelled || signal.aborted) return;
    const wanted = Number(link?.get("step") ?? NaN);
    if (wanted >= 1) return await inspect(Math.round(wanted) - 1);
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
  stop();
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
  const whose = seed === undefined ? "Your picture, read without a class." : "";
  setText("how-status", className === null ? whose : `An image of class ${className}.`);
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
  if (playing === undefined) writeAddress(); // browsers allow few changes of the address in a second
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

/** Stops the film, and writes where it stands. */
function pause(): void {
  const wasPlaying = playing !== undefined;
  stop();
  if (wasPlaying && source) writeAddress();
}

function stop(): void {
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
    find("stages", HTMLElement).hidden = false;
    showStep(shown, numbers, at, picture, seed);
    const next = Math.min(at + shown.row, shown.count - 1);
    if (playing !== undefined && !shown.step(next)) shown.load(next).catch(() => undefined);
    void weigh(shown, at); // on every screen: all of them are printed
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
    if (source !== shown || step !== at) return;
    const ofPixels = showWeights(shown, weights, model!);
    if (screen === WEIGHED) layOver(ofPixels);
  } catch (error) {
    if (source === shown) showError(error, "how");
  }
}

/** Says what a pixel is, and how much of it is read where that is shown. */
function sayPixel(row: number, column: number): void {
  const { width, height, channels } = model!;
  const pixel = row * width + column;
  if (row < 0 || column < 0 || row >= height || column >= width || !picture?.done) return;
  const isLater = source !== undefined && pixel * channels > source.position(step);
  const bytes = picture.bytes.subarray(pixel * channels, (pixel + 1) * channels);
  const value = isLater ? "painted later" : bytes.join(", ");
  const weight = laidOver && !isLater ? `, weight ${(100 * laidOver[pixel]!).toPrecision(3)} %` : "";
  setText("how-pixel", `Row ${row + 1}, column ${column + 1}: ${value}${weight}`);
}

/** Says what the picture shows besides, while the pointer is elsewhere. */
function sayLegend(): void {
  const window = screen === 1 && source?.layout.window ? "The frame is what is read." : "";
  const legend = laidOver ? "Orange is what this head reads, beyond the window too." : window;
  const hint = `Point at a pixel for its ${laidOver ? "weight" : "value"}.`;
  setText("how-pixel", matchMedia("(hover: hover)").matches ? `${legend} ${hint}`.trim() : legend);
}

/** Lays the weight of each pixel over the picture, the largest one opaque. */
function layOver(weights: Float32Array): void {
  laidOver = weights;
  const canvas = find("watched", HTMLCanvasElement);
  const context = canvas.getContext("2d")!;
  const { width } = picture!.size;
  const fine = canvas.width / width;
  const most = Math.max(...weights);
  weights.forEach((weight, pixel) => {
    context.fillStyle = `rgb(217 83 44 / ${Math.sqrt(weight / most)})`;
    context.fillRect((pixel % width) * fine, Math.floor(pixel / width) * fine, fine, fine);
  });
  sayLegend();
}

/** Draws the pixels before `pixels`; with `current`, that pixel framed, and the window that it reads. */
function drawImage(pixels: number, current?: number, window?: [number, number] | null): void {
  const canvas = find("watched", HTMLCanvasElement);
  laidOver = undefined;
  if (!picture) return; // of another model than the bytes that arrive
  const { width, height } = picture.size;
  const scale = pixelScale(width, ROOM);
  const fine = Math.max(1, Math.round(scale * (globalThis.devicePixelRatio || 1))); // canvas pixels for one of the image
  Object.assign(canvas, { width: width * fine, height: height * fine });
  enlarge(canvas, scale / fine);
  const context = canvas.getContext("2d")!;
  context.imageSmoothingEnabled = false;
  const image = picture.copy((pixel) => pixel < pixels).canvas;
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
  sayLegend();
}
