// Opens a file by its recipe: the address that paints its images again, and a sentence that says what was opened. What the
// page cannot paint, or would paint otherwise, is a FileError.

import { runJob } from "../api/websocket";
import { local } from "../api/local";
import type { JobRequest } from "../api/job";
import { bytesOf, type Model } from "../api/models";
import { fromBase64 } from "../base/base64";
import { unpacked } from "../base/bits";
import { find } from "../base/elements";
import { writeDrawing } from "../pictures/drawing_fields";
import { Occlusion } from "../pictures/occlusion";
import { lettersIn, toAddress, type PaintRequest } from "../jobs/paint_form";
import { base64 } from "../pictures/files";
import { Picture } from "../pictures/picture";
import { servedModels } from "../shell/model";
import { FileError } from "./read";
import { knownDigest, type Recipe } from "./recipe";

const FIELDS = ["model", "n", "seed", "class", "temperature", "guidance", "best_of", "particles", "keep_rows"];
const MOST_WRITTEN = 32; // characters
const MOST_COMPARED = 64; // images

export interface Restored {
  model: Model;
  tab: "paint" | "complete";
  fields: URLSearchParams; // of the address
  sentence: string;
}

/** The model that has painted a file, or one of its name. */
export function painterOf({ digest, request }: Recipe): Model | undefined {
  const isNamed = ({ id, aliases }: Model) => id === request.model || aliases.includes(request.model);
  return servedModels().find((model) => model.digest === digest) ?? servedModels().find(isNamed);
}

/** `name` is the file's; `pictures` those that it shows. */
export async function restored(recipe: Recipe, pictures: Picture[] | undefined, name: string): Promise<Restored> {
  const { request, scanline } = recipe;
  const unknown = Object.keys(request).find((field) => !FIELDS.includes(field));
  if (unknown) {
    throw new FileError(`${name} was painted by scanline ${scanline}, and asks for ${unknown}, which this page does not know.`);
  }
  const model = painterOf(recipe);
  if (!model) throw new FileError(`${name} was painted by ${request.model}, which this server does not have.`);
  const asked = askedOf(recipe, model, name);
  check(recipe, asked, model, name);
  const fields = toAddress(asked);
  const { write, ...rest } = asked;
  let job: JobRequest = { type: "generate", ...rest, ...(write && { class: lettersIn(write) }) };
  if (recipe.known_sha256) {
    const { image, occlusion } = await drawingOf(recipe, pictures?.[0], model, name);
    fields.set("particles", String(request.particles ?? 1));
    writeDrawing(fields, image, occlusion);
    const sent = { image: await base64(image.canvas), ...(await occlusion.fields()) };
    job = { ...job, type: "complete", particles: request.particles, ...sent };
  }
  if (model.digest !== recipe.digest && !(await paintsTheSame(job, recipe, pictures, model))) {
    const otherwise = `with other weights of ${model.id} than this server has, or was computed otherwise`;
    throw new FileError(`${name} was painted ${otherwise}: its pictures cannot be painted again here.`);
  }
  return { model, tab: recipe.known_sha256 ? "complete" : "paint", fields, sentence: sentenceOf(recipe, asked, name) };
}

/** What the page has to ask for. */
function askedOf({ request, index, each, write: text }: Recipe, model: Model, name: string): PaintRequest {
  const { seed, class: named, temperature = model.defaults.temperature, guidance = model.defaults.guidance } = request;
  const { best_of } = request;
  const asked = { model: model.id, seed, temperature, guidance, best_of, n: request.n ?? (index ?? 0) + 1 };
  if (each) throw new FileError(`${name} has a row for each ${each}, which the page does not paint: see “scanline recipe”.`);
  if (!Array.isArray(named)) {
    const isNone = named === "none" && !model.classes.includes("none");
    return { ...asked, class: isNone ? undefined : named };
  }
  const written = text === undefined ? named : [...text];
  const isWriting = named.every((one) => [...one].length === 1) && String(lettersIn(written)) === String(named);
  if (isWriting && named.length <= MOST_WRITTEN) return { ...asked, n: named.length, write: written };
  throw new FileError(`${name} has images of several classes, which the page does not paint: see “scanline recipe”.`);
}

/** Throws what the page's form cannot ask for. */
function check({ request, known_sha256: known }: Recipe, asked: PaintRequest, model: Model, name: string): void {
  const { n, temperature, guidance = 1, best_of = 1, class: named = "any", write } = asked;
  const { particles = 1 } = request;
  const has = (id: string, value: number) => value === 1 || document.querySelector(`#${id} [value="${value}"]`);
  const isWhole = (value: number) => Number.isInteger(Number(value.toFixed(6)));
  const most = Number(find(known ? "complete-count" : "count", HTMLInputElement).max);
  const classes = [...model.classes, ...(known && request.class ? [] : ["any"])];
  const settings: [string, unknown, unknown][] = [
    ["n", n, n >= 1 && n <= most],
    ["temperature", temperature, temperature >= 0.01 && temperature <= 2 && isWhole(100 * temperature)],
    ["guidance", guidance, guidance >= 1 && guidance <= 4 && isWhole(4 * guidance)],
    ["best_of", best_of, best_of === 1 || (!local && has("picky", best_of))],
    ["particles", particles, has("particles", particles)],
    ["class", named, write || classes.includes(named)],
    ["seed", asked.seed, /^\d{1,19}$/.test(asked.seed)],
  ];
  const wrong = settings.find(([, , isPossible]) => !isPossible);
  if (!wrong) return;
  throw new FileError(`${name} was painted with ${wrong[0]} ${wrong[1]}, which the page does not have: see “scanline recipe”.`);
}

/** The picture that was completed: its known pixels are in each completion. */
async function drawingOf(recipe: Recipe, picture: Picture | undefined, model: Model, name: string): Promise<Drawing> {
  const { request, mask, known_sha256: known = [] } = recipe;
  if (known.length > 1) throw new FileError(`${name} completes ${known.length} pictures, and the page one: see “scanline recipe”.`);
  const { width, height, channels } = model;
  const occlusion = new Occlusion({ width, height, channels });
  occlusion.rows = request.keep_rows ?? height;
  if (mask) occlusion.masked.set(unpacked(fromBase64(mask), width * height).map((isKnown) => 1 - isKnown));
  const isKnown = Uint8Array.from({ length: bytesOf(model) }, (_, at) => Number(occlusion.isKnown(Math.floor(at / channels))));
  const bytes = picture?.bytes.map((byte, at) => byte * isKnown[at]!);
  const digest = bytes && (await knownDigest(bytes, isKnown));
  if (!bytes || !occlusion.hidden || (digest !== undefined && digest !== known[0])) {
    throw new FileError(`${name} does not have the picture that it completes, byte for byte.`);
  }
  return { image: Picture.of(occlusion.size, bytes), occlusion };
}

interface Drawing {
  image: Picture;
  occlusion: Occlusion;
}

/** Whether a model of another digest paints the first picture of the file: its weights may be the same. */
async function paintsTheSame(job: JobRequest, recipe: Recipe, pictures: Picture[] | undefined, model: Model): Promise<boolean> {
  const n = (recipe.index ?? 0) + 1;
  const isAfterOriginal = recipe.known_sha256 && recipe.columns === (recipe.request.n ?? 1) + 2;
  const expected = pictures?.[isAfterOriginal ? 1 : 0];
  if (!expected || n > MOST_COMPARED) return false;
  const found = Array.from({ length: n }, () => new Picture(model));
  const frame = ({ index, first, bytes }: { index: number; first: number; bytes: Uint8Array }) =>
    void found[index]!.paint(first, bytes);
  await runJob({ ...job, n }, { frame }, new AbortController().signal);
  // GIFs have no grey 254, but 255
  const isEqual = (byte: number, at: number) => byte === expected.bytes[at] || Math.min(byte, expected.bytes[at]!) >= 254;
  return found[n - 1]!.bytes.every(isEqual);
}

function sentenceOf({ index, known_sha256: known }: Recipe, asked: PaintRequest, name: string): string {
  const { n, write, class: named, model, seed } = asked;
  const what = known ? "completion" : "image";
  const ofClass = named === undefined ? "" : ` of ${named === "any" ? "any class" : `class ${named}`}`;
  const counted = index === undefined ? `${n} ${what}${n === 1 ? "" : "s"}` : `${what} ${index + 1}`;
  return `${name} is opened: ${write ? `“${write.join("")}”` : counted + ofClass}, by ${model}, seed ${seed}.`;
}
