// A drawing and what is hidden of it as fields of an address, which brings both back: the bytes of the image, the rows
// to keep, and one bit for each pixel that the brush has hidden.

import { fromBase64, toBase64Url } from "../base/base64";
import { Picture, type Size } from "./picture";
import { Occlusion } from "./occlusion";

export function writeDrawing(fields: URLSearchParams, image: Picture, occlusion: Occlusion): void {
  fields.set("image", toBase64Url(image.bytes));
  fields.set("rows", String(occlusion.rows));
  const { masked } = occlusion;
  if (!masked.includes(1)) return;
  const bits = new Uint8Array(Math.ceil(masked.length / 8));
  masked.forEach((bit, pixel) => (bits[pixel >> 3]! |= bit << (pixel & 7)));
  fields.set("mask", toBase64Url(bits));
}

/** Returns undefined where the fields have no image of this size. */
export function readDrawing(fields: URLSearchParams, size: Size): { image: Picture; occlusion: Occlusion } | undefined {
  const bytes = fromText(fields.get("image"));
  if (bytes?.length !== size.width * size.height * size.channels) return undefined;
  const { width, height, channels } = size;
  const occlusion = new Occlusion({ width, height, channels });
  const rows = Number(fields.get("rows"));
  occlusion.rows = Math.max(0, Math.min(height, Number.isInteger(rows) ? rows : 0));
  const bits = fromText(fields.get("mask")) ?? new Uint8Array();
  occlusion.masked.forEach((_, pixel) => (occlusion.masked[pixel] = (bits[pixel >> 3]! >> (pixel & 7)) & 1));
  return { image: Picture.of(occlusion.size, bytes), occlusion };
}

function fromText(text: string | null): Uint8Array | undefined {
  try {
    return text === null ? undefined : fromBase64(text);
  } catch {
    return undefined; // no base64
  }
}
