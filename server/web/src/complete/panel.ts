// Complete: an image that is drawn, uploaded or taken from the gallery, partly hidden, and the model's completions. The
// address has all of it, so that Back, reload and links bring the same completions back; a drawing that has none yet is
// kept for this tab's session.

import type { Model } from "../api/models";
import type { Frame } from "../api/job";
import { StoredText } from "../base/browser";
import { showCode } from "../code/dialog";
import { setUpFilm } from "../code/film";
import type { CodeRequest } from "../code/snippets";
import { find, make, onClick, setText } from "../base/elements";
import { JobRunner } from "../jobs/job_runner";
import { fromAddress, PaintForm, toAddress } from "../jobs/paint_form";
import { base64 } from "../pictures/files";
import type { Picture } from "../pictures/picture";
import { onAddress, onModel } from "../shell/model";
import { clearNotice, FormError, showError } from "../base/notice";
import { follow } from "../shell/follow";
import { addressOf, detailsOf, goTo, isShown } from "../shell/tabs";
import { DrawingCanvas } from "./canvas";
import { readDrawing, writeDrawing } from "../pictures/drawing_fields";
import { LiveCompletions, type LiveDrawing } from "./live";
import { ParticlesChoice } from "./particles";
import { Reading } from "./reading";
import { Results } from "./results";
import { setUpFiles, showThumbnails } from "./sources";

const stored = new StoredText(() => sessionStorage, "scanline-drawing");
const SAME = 2; // bytes that differ no more are those of another way of shrinking
const DARK = 128; // a grey picture whose edge is lighter on average is dark on white

let model: Model; // the page is inert until there is one
let canvas: DrawingCanvas;
let form: PaintForm;
let particles: ParticlesChoice;
let results: Results;
let runner: JobRunner;
let live: LiveCompletions;
let reading: Reading;
let code: CodeRequest; // of the completions that are shown
let shownFields = ""; // of the address, for the completions that are shown

/** `pictures` returns the finished pictures of the gallery. */
export function setUpComplete(pictures: () => Picture[]): void {
  form = new PaintForm("complete-", false);
  particles = new ParticlesChoice();
  reading = new Reading();
  canvas = new DrawingCanvas(showDrawing);
  form.classes.onChange(showGuidance);
  particles.onChange(showGuidance);
  results = new Results();
  runner = new JobRunner("complete");
  live = new LiveCompletions(readLive);
  const place = { prefix: "", verb: "Complete" };
  const offerPictures = () => isShown("complete") && void showThumbnails(model, pictures(), completeThis, place);
  onModel((selected, isChosen) => {
    const isFirst = !model;
    model = selected;
    clearResults(); // they are another model's
    live.clear();
    reading.fit(selected);
    canvas.fit(selected);
    live.fit(selected);
    form.classes.fill(selected.classes);
    form.fill({ temperature: selected.defaults.temperature });
    showGuidance();
    find("colour-field", HTMLElement).hidden = selected.channels === 1;
    const before = new URLSearchParams(isFirst ? (stored.read() ?? "") : "");
    restoreDrawing(before);
    if (isChosen) forget();
    else if (!isNewer(before)) restore();
    demonstrate();
    showDrawing();
    offerPictures();
  });
  onAddress(restore);
  window.addEventListener("tab", () => {
    if (!model) return;
    live.fit(model);
    demonstrate();
    if (isShown("complete")) showDrawing();
    else live.stop();
    offerPictures();
  });
  window.addEventListener("resize", () => model && live.fit(model));
  window.addEventListener("pagehide", storeDrawing);
  find("complete-form", HTMLFormElement).addEventListener("change", () => live.follow());
  find("complete-form", HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    complete().catch((error) => showError(error, "complete"));
  });
  onClick("complete-code", () => showCode(code));
  setUpFilm("complete-film", "complete", () => [code, `${code.model}-completions-seed-${code.seed}`]);
  onClick("follow", () => follow(canvas.image));
  onClick("undo", undo);
  onClick("clear", () => {
    canvas.clear();
    showNew("");
  });
  onClick("invert", () => canvas.invert());
  onClick("uncover", () => canvas.uncover());
  document.addEventListener("keydown", (event) => {
    const isText = event.target instanceof HTMLInputElement && ["text", "number"].includes(event.target.type);
    if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || isText || !isShown("complete")) return;
    event.preventDefault();
    undo();
  });
  setUpFiles("complete", "upload", () => model, (opened) => {
    if ("pictures" in opened) completeThis(opened.pictures[0]!);
    else {
      showNew(canvas.load(opened.image, opened.width, opened.height));
      void makeCharacter(opened.image, opened.width, opened.height);
    }
    offerPictures();
  });
}

/** Copies a picture of the gallery to the canvas. */
export function completeThis(picture: Picture): void {
  canvas.load(picture.canvas, picture.size.width, picture.size.height);
  clearResults();
  shownFields = ""; // the address still brings them back
}

function undo(): void {
  canvas.undo();
  find("adapted", HTMLElement).hidden = true; // it is said of what was taken back
}

/** Shows another picture: says what was changed of its file, and drops the completions of the one before. */
function showNew(changes: string): void {
  clearResults();
  forget();
  setText("adapted", changes);
  find("adapted", HTMLElement).hidden = !changes;
}

/** Replaces what was loaded from a file by the digit or letter on it, for a model of such; the user can take that back. */
async function makeCharacter(image: CanvasImageSource, width: number, height: number): Promise<void> {
  const isOf = (characters: RegExp) => model.classes.length > 1 && model.classes.every((name) => characters.test(name));
  if (!isOf(/^[\dA-Za-z]$/) || model.channels !== 1) return;
  const loaded = canvas.image;
  const asked = model;
  const opening = import("../recipe/lazy");
  // where it cannot: as it is
  const drawn = await opening.then(({ cleaned }) => cleaned(image, width, height, asked)).catch(() => undefined);
  if (!drawn || canvas.image !== loaded || model !== asked) return;
  if (drawn.bytes.every((byte, at) => Math.abs(byte - loaded.bytes[at]!) <= SAME)) return;
  canvas.load(drawn.canvas, drawn.size.width, drawn.size.height);
  const button = make("button", { type: "button" }, "Undo");
  button.addEventListener("click", undo);
  find("adapted", HTMLElement).replaceChildren(`Made it look like a ${isOf(/\d/) ? "digit" : "character"}. `, button);
  find("adapted", HTMLElement).hidden = false;
}

function clearResults(): void {
  runner.drop();
  runner.clearFigures();
  results.clear();
  find("adapted", HTMLElement).hidden = true;
}

/** Has the address ask for nothing but the model: what it asked for is no longer shown. */
function forget(): void {
  shownFields = "";
  const address = addressOf("complete", new URLSearchParams({ model: model.id }));
  if (isShown("complete")) goTo(address, false);
}

/** Draws a stroke where the tab is shown with nothing on its canvas. */
function demonstrate(): void {
  if (isShown("complete")) canvas.demonstrate();
}

/** The drawing, if there is one. */
export const drawnPicture = (): Picture | undefined => (canvas.isEmpty ? undefined : canvas.image);

/** What the form says of the drawing, after each change. */
function showDrawing(): void {
  particles.show(canvas.occlusion);
  showGuidance();
  find("undo", HTMLButtonElement).disabled = !canvas.canUndo;
  find("follow", HTMLButtonElement).disabled = canvas.isEmpty;
  find("dark-on-white", HTMLElement).hidden = canvas.isEmpty || !isDarkOnWhite(canvas.image);
  live.follow(canvas.isDrawn);
  reading.follow(isSeen() && isShown("complete") ? canvas.image : undefined);
}

/** Whether there is anything on the canvas. */
const isSeen = (): boolean => !canvas.isEmpty || canvas.isDemonstrated;

/** What is completed while one draws: nothing while the tab has another job or is not shown. */
function readLive(seed: string): LiveDrawing | undefined {
  if (runner.isRunning || !isShown("complete")) return undefined;
  if (!isSeen()) throw new Error("Four completions follow each stroke.");
  const { image, occlusion } = canvas;
  if (!occlusion.hidden) throw new Error("No pixel is hidden. Keep fewer rows, or hide some pixels.");
  const request = form.read(seed);
  const [label] = form.classes.labelsOf({ ...request, n: 1 });
  return { image, occlusion: occlusion.copy(), request, label: label!, particles: particles.count };
}

function showGuidance(): void {
  if (model) form.showGuidance(model, particles.count);
}

/** Whether a grey picture has a light edge; the models' pictures are light on black. */
function isDarkOnWhite({ bytes, size: { width, height, channels } }: Picture): boolean {
  if (channels !== 1) return false;
  const isEdge = (at: number) => at < width || at >= width * (height - 1) || at % width === 0 || (at + 1) % width === 0;
  const edge = bytes.filter((_, at) => isEdge(at));
  return edge.reduce((sum, byte) => sum + byte, 0) / edge.length > DARK;
}

function storeDrawing(): void {
  if (!model) return;
  const fields = new URLSearchParams();
  if (!canvas.isEmpty || canvas.occlusion.masked.includes(1)) writeDrawing(fields, canvas.image, canvas.occlusion);
  fields.set("after", String(detailsOf("complete")));
  stored.write(String(fields));
}

/** Whether a drawing that was stored follows the completions of the address, which then are not painted again. */
function isNewer(drawing: URLSearchParams): boolean {
  const completed = detailsOf("complete");
  if (drawing.get("after") !== String(completed)) return false;
  return ["image", "rows", "mask"].some((name) => drawing.has("image") && drawing.get(name) !== completed.get(name));
}

/** Returns whether the fields have a drawing of the model's size. */
function restoreDrawing(fields: URLSearchParams): boolean {
  const drawing = readDrawing(fields, model);
  if (drawing) canvas.restore(drawing.image, drawing.occlusion);
  return drawing !== undefined;
}

/** Paints the completions of the address, unless they are shown already. */
function restore(): void {
  const fields = detailsOf("complete");
  if (!fields.has("image") || String(fields) === shownFields) return;
  if (!restoreDrawing(fields)) return showError("The picture of this link does not have the size of the model's images.");
  form.fill(fromAddress(fields));
  particles.choose(Number(fields.get("particles")), fields.has("compare"));
  showGuidance();
  complete(false).catch((error) => showError(error, "complete"));
}

/** `isNew`: asked for by the user, and an entry of the history. */
async function complete(isNew = true): Promise<void> {
  const asked = form.read();
  const { n } = asked;
  const rows = particles.read();
  const { image: original } = canvas;
  const occlusion = canvas.occlusion.copy();
  if (!occlusion.hidden) {
    throw new FormError(find("rows", HTMLInputElement), "No pixel is hidden. Keep fewer rows, or hide some pixels.");
  }
  clearNotice();
  const address = toAddress(asked);
  address.set("particles", String(particles.count));
  if (rows.length > 1) address.set("compare", "1");
  writeDrawing(address, original, occlusion);
  shownFields = String(address);
  goTo(addressOf("complete", address), isNew);
  const fields = { image: await base64(original.canvas), ...(await occlusion.fields()) };

  const painter = model;
  results.reset(model, original, occlusion, rows, n, async (index, particles) => {
    const { ofImage, recipeOfCompletions } = await import("../recipe/lazy");
    const recipe = await recipeOfCompletions(painter, asked, particles, original, occlusion);
    return recipe && ofImage(recipe, index, asked.class ?? null);
  });
  runner.follow();
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
  const request = { type: "complete", ...asked, ...fields } as const;
  code = { ...asked, edit: { ...fields, particles: particles.count } };
  live.stop();
  const ended = runner.runOnServer(
    rows.map(({ particles }) => ({ ...request, particles })),
    n,
    n * occlusion.hidden * channels,
    {
      frame: paint,
      image: (index, finished) => results.finish(index, finished),
      ended: () => void results.drawOverlays(),
    },
  );
  void ended.then(() => live.follow());
}
