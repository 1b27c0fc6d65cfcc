// The recipe that stands in a file of painted images: the request that paints them again. Its text is the one that
// model/images/recipe.py writes, byte for byte. Knows no page.

import type { Model } from "../api/models";
import { toBase64 } from "../base/base64";
import { packed } from "../base/bits";
import type { Occlusion } from "../pictures/occlusion";
import { lettersIn, type PaintRequest } from "../jobs/paint_form";
import type { Picture } from "../pictures/picture";
import { crc32 } from "../pictures/zip";

export interface RecipeRequest {
  model: string;
  n?: number | undefined;
  seed: string; // up to 2^63 - 1
  class?: string | string[] | undefined;
  temperature?: number | undefined;
  guidance?: number | undefined;
  best_of?: number | undefined;
  particles?: number | undefined; // this and the next of completions
  keep_rows?: number | undefined;
}

/** docs/api.md says what each field means. */
export interface Recipe {
  scanline: string;
  digest: string;
  request: RecipeRequest;
  mask?: string | undefined;
  known_sha256?: string[];
  index?: number;
  write?: string;
  columns?: number;
  scale?: number;
  frames?: number;
  size?: string;
  each?: string;
  invert?: boolean;
  labels?: boolean;
}

const KEYWORD = "scanline";
const MAX_CHARACTERS = 2 ** 15;
const FRACTIONS = ["temperature", "guidance"]; // Python writes 1.0 where these are whole

/** The recipe of all images of a request that a model has painted; undefined where it is not known what painted them. */
export function recipeOf({ digest, scanline, classes }: Model, asked: PaintRequest): Recipe | undefined {
  if (digest === null) return undefined;
  const { model, n, seed, class: name = "none", temperature, guidance = 1, best_of = 1, write } = asked;
  const named = write ? lettersIn(write) : classes.length ? name : "none";
  const hasClass = write || (classes.length && asked.class !== undefined);
  const candidates = hasClass ? best_of : undefined;
  return { scanline, digest, request: { model, n, seed, class: named, temperature, guidance, best_of: candidates } };
}

/** The recipe of all completions of a picture; undefined also where the browser cannot name what was known. */
export async function recipeOfCompletions(
  model: Model,
  asked: PaintRequest,
  particles: number,
  { bytes, size }: Picture,
  occlusion: Occlusion,
): Promise<Recipe | undefined> {
  const whole = recipeOf(model, asked);
  const isKnown = bytes.map((_, at) => Number(occlusion.isKnown(Math.floor(at / size.channels))));
  const digest = await knownDigest(bytes.map((byte, at) => byte * isKnown[at]!), isKnown);
  if (!whole || digest === undefined) return undefined;
  const isOfRows = !occlusion.masked.includes(1);
  const known = occlusion.masked.map((_, pixel) => Number(occlusion.isKnown(pixel)));
  const rows = isOfRows ? occlusion.rows : undefined;
  return {
    ...whole,
    request: { ...whole.request, class: asked.class, best_of: undefined, particles, keep_rows: rows },
    mask: isOfRows ? undefined : toBase64(packed(known)),
    known_sha256: [digest],
  };
}

/** The recipe of one of the images, by its number and class. */
export function ofImage(whole: Recipe, index: number, name: string | null): Recipe {
  const { n: _, ...request } = whole.request;
  return { ...whole, request: { ...request, ...(name !== null && { class: name }) }, index };
}

/** The recipe of a sheet of all images. */
export function ofSheet(recipe: Recipe, names: (string | null)[], columns: number, scale: number): Recipe {
  const one = names.length === 1 ? ofImage(recipe, 0, names[0]!) : recipe;
  return names.length * scale === 1 ? one : { ...one, columns, scale };
}

/** The text of a recipe, as json.dumps of Python writes it. */
export function textOf(value: unknown, name = ""): string {
  if (Array.isArray(value)) return `[${value.map((each) => textOf(each)).join(", ")}]`;
  if (typeof value === "object") {
    const fields = Object.entries(value!).filter(([, each]) => each !== undefined);
    return `{${fields.map(([field, each]) => `"${field}": ${textOf(each, field)}`).join(", ")}}`;
  }
  if (name === "seed") return String(value); // as text, digits
  if (FRACTIONS.includes(name) && Number.isInteger(value)) return `${value}.0`;
  const escaped = (sign: string) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replace(/[^ -~]|[<>&]/g, escaped);
}

/** What the text of a recipe says; undefined where it is none. */
export function parsed(text: string): Recipe | undefined {
  if (text.length > MAX_CHARACTERS) return undefined;
  try {
    // the seed as text; in a string, quotes are escaped
    const recipe = JSON.parse(text.replace(/"seed":\s*(\d+)/, '"seed": "$1"'));
    const { scanline, digest, request } = recipe;
    const texts = [scanline, digest, request.model, request.seed];
    return texts.every((each) => typeof each === "string") ? recipe : undefined;
  } catch {
    return undefined;
  }
}

/** A PNG with a recipe in it, as its first text. */
export function withRecipe(png: Blob, recipe: Recipe | undefined): Blob {
  const text = recipe && textOf(recipe);
  if (text === undefined || text.length > MAX_CHARACTERS) return png;
  const content = Uint8Array.from(`tEXt${KEYWORD}\0${text}`, (letter) => letter.charCodeAt(0));
  const number = (value: number) => {
    const view = new DataView(new ArrayBuffer(4));
    view.setUint32(0, value);
    return view;
  };
  const head = 33; // the signature, and the chunk with the sizes
  const chunk = [number(content.length - 4), content, number(crc32(content))];
  return new Blob([png.slice(0, head), ...chunk, png.slice(head)], { type: png.type });
}

/** The digest by which a recipe names a picture that was completed: of its bytes, hidden ones as 0, and whether each is
 * known. Undefined where the browser computes none: over plain HTTP. */
export async function knownDigest(bytes: Uint8Array, isKnown: Uint8Array): Promise<string | undefined> {
  if (!crypto.subtle) return undefined;
  const digest = await crypto.subtle.digest("SHA-256", Uint8Array.of(...bytes, ...isKnown));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
