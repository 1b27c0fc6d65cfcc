// Opens the files of a visitor: images that the browser reads, and everything that this page saves: codes (.scan), arrays
// (.npy), archives (.zip), sheets and films, of which the last frame counts. A file's content says what it is, and its recipe
// which pictures a sheet has.

import { ApiError, callOnce, retried } from "../api/http";
import { local } from "../api/local";
import type { Model } from "../api/models";
import { toBase64 } from "../base/base64";
import { find, make } from "../base/elements";
import { cut, type Image } from "./cut";
import { FileError, readRecipe } from "./read";
import type { Recipe } from "./recipe";
import { painterOf } from "./restore";
import { base64 } from "../pictures/files";
import { Picture, type Size } from "../pictures/picture";

/** What a file has: pictures of the model's size, or one image of any size; and the recipe of those that it shows. */
export type Opened = ({ pictures: Picture[] } | Image) & { recipe?: Recipe };

const [CODE, ARRAY, ARCHIVE, FILM] = ["\x93scan", "\x93NUMPY", "PK\x03\x04", "GIF8"];
const FILMS: Record<string, string> = { GIF8: "image/gif", RIFF: "image/webp", "\x89PNG": "image/png" };
const [LOCAL_HEADER, STORED] = [30, 0]; // bytes of a file's header in an archive; the method of files without compression
const LONGEST = 256; // pixels of a photo's longer side, as it is sent: the server reads no more, and JSON has no room for more
const BYTES = 1 << 20; // of a .scan file that is sent to the server

export async function openFile(file: File, model: () => Model): Promise<Opened> {
  const name = file.name || "the file";
  const start = String.fromCharCode(...new Uint8Array(await file.slice(0, 6).arrayBuffer()));
  try {
    if (start.startsWith(CODE!)) return { pictures: [await decoded(file, model)] };
    if (start === ARRAY) return { pictures: fromArray(new Uint8Array(await file.arrayBuffer()), model()) };
    if (start.startsWith(ARCHIVE!)) return { pictures: await fromArchive(await file.arrayBuffer(), model()) };
    const recipe = readRecipe(new Uint8Array(await file.arrayBuffer()), name);
    const isFilm = (start.startsWith(FILM!) || recipe?.frames) && "ImageDecoder" in window;
    const image = isFilm ? await lastFrame(file, FILMS[start.slice(0, 4)]!) : await stillOf(file);
    if (!recipe) return image;
    const pictures = cut(image, recipe, painterOf(recipe) ?? model());
    return pictures ? { pictures, recipe } : { ...image, recipe };
  } catch (error) {
    if (error instanceof FileError || error instanceof ApiError) throw error;
    throw new FileError(`The browser cannot read ${name} as an image.`);
  }
}

/** An image as a model of drawings reads it: without its paper, light on black, and in the middle; undefined where the page cannot
 * do that without a server. */
export async function cleaned(image: CanvasImageSource, width: number, height: number, model: Model): Promise<Picture | undefined> {
  const scale = Math.min(1, LONGEST / Math.max(width, height));
  const canvas = make("canvas", { width: Math.ceil(width * scale), height: Math.ceil(height * scale) });
  const context = canvas.getContext("2d")!;
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  if (local) {
    const bytes = await local.drawingOn(context.getImageData(0, 0, canvas.width, canvas.height));
    return bytes && Picture.of(model, bytes);
  }
  const asked = { model: model.id, image: await base64(canvas), clean: "auto", size_policy: "resize" };
  const { data } = await (await callOnce("v1/images/codes", asked)).json();
  return pictureOfCode(data[0].code, model);
}

async function pictureOfCode(code: string, model: Model): Promise<Picture> {
  const fields = { model: model.id, code: [code], images: [0] };
  const answer = await callOnce("v1/images/decodings", fields, "application/x-npy");
  return fromArray(new Uint8Array(await answer.arrayBuffer()), model)[0]!;
}

/** The first picture of a file of codes. Selects the model that made it, where that is another one. */
async function decoded(file: File, model: () => Model): Promise<Picture> {
  if (file.size > BYTES) throw new FileError("This file of codes is too large for the page; use scanline decompress.");
  const code = [toBase64(new Uint8Array(await file.arrayBuffer()))];
  const select = find("model", HTMLSelectElement);
  const first = select.value;
  for (const name of [first, ...[...select.options].map(({ value }) => value).filter((value) => value !== first)]) {
    try {
      const ask = () => callOnce("v1/images/decodings", { model: name, code, images: [0] }, "application/x-npy");
      const array = new Uint8Array(await (await retried(ask)).arrayBuffer());
      if (name !== first) {
        select.value = name;
        select.dispatchEvent(new Event("change"));
      }
      return fromArray(array, model())[0]!;
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== "other_model") throw error;
    }
  }
  throw new FileError("No model of this server made this code.");
}

/** The pictures of a .npy file [n, H, W] or [n, H, W, 3], uint8. */
function fromArray(file: Uint8Array<ArrayBuffer>, { width, height, channels }: Size): Picture[] {
  const start = 10 + new DataView(file.buffer).getUint16(8, true);
  const header = String.fromCharCode(...file.subarray(10, start));
  const shape = /'shape': \(([\d, ]+)\)/.exec(header)?.[1]!.split(",").filter((part) => part.trim()).map(Number);
  const expected = [height, width, ...(channels === 1 ? [] : [channels])];
  if (!/'descr': '\|u1', 'fortran_order': False/.test(header) || String(shape?.slice(1)) !== String(expected)) {
    throw new FileError(`An array must be uint8 [n, ${expected.join(", ")}] for this model.`);
  }
  const bytes = width * height * channels;
  const count = Math.floor((file.length - start) / bytes);
  const at = (index: number) => file.slice(start + index * bytes, start + (index + 1) * bytes);
  return Array.from({ length: count }, (_, index) => Picture.of({ width, height, channels }, at(index)));
}

/** The pictures of an archive of files without compression, each of the model's size. */
async function fromArchive(file: ArrayBuffer, size: Size): Promise<Picture[]> {
  const view = new DataView(file);
  const pictures: Picture[] = [];
  for (let at = 0; view.getUint32(at, true) === 0x04034b50; ) {
    const [method, length] = [view.getUint16(at + 8, true), view.getUint32(at + 18, true)];
    const start = at + LOCAL_HEADER + view.getUint16(at + 26, true) + view.getUint16(at + 28, true);
    const image = await createImageBitmap(new Blob([file.slice(start, start + length)]));
    if (method !== STORED || image.width !== size.width || image.height !== size.height) {
      throw new FileError("An archive must hold pictures of the model's size, as the page saves them.");
    }
    pictures.push(pictureOf(image, size));
    at = start + length;
  }
  return pictures;
}

/** An image of the model's size, byte for byte. */
function pictureOf(image: ImageBitmap, { width, height, channels }: Size): Picture {
  const context = make("canvas", { width, height }).getContext("2d", { willReadFrequently: true })!;
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  return Picture.of({ width, height, channels }, data.filter((_, at) => at % 4 < channels) as unknown as Uint8Array);
}

async function stillOf(file: File): Promise<Image> {
  const image = await createImageBitmap(file);
  return { image, width: image.width, height: image.height };
}

/** The last frame of a film, which shows its pictures finished. */
async function lastFrame(file: File, type: string): Promise<Image> {
  const decoder = new ImageDecoder({ data: file.stream(), type });
  await decoder.completed;
  const frameIndex = decoder.tracks.selectedTrack!.frameCount - 1;
  const { image } = await decoder.decode({ frameIndex });
  return { image, width: image.displayWidth, height: image.displayHeight };
}
