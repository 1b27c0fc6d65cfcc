// A drawing and what is hidden of it as fields of an address, which brings both back: the bytes of the image, the rows
// to keep, and one bit for each pixel that the brush has hidden.

import { Picture, type Size } from "../pictures/picture";
import { Occlusion } from "./occlusion";

export function writeDrawing(fields: URLSearchParams, image: Picture, occlusion: Occlusion): void {
  fields.set("image", toText(image.bytes));
  fields.set("rows", String(occlusion.rows));
  const { masked } = occlusion;
  if (!masked.includes(1)) return;
  const bits = new Uint8Array(Math.ceil(masked.length / 8));
  masked.forEach((bit, pixel) => (bits[pixel >> 3]! |= bit << (pixel & 7)));
  fields.set("mask", toText(bits));
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

function toText(bytes: Uint8Array): string {
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function fromText(text: string | null): Uint8Array | undefined {
  if (text === null) return undefined;
  try {
    return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  } catch {
    return undefined; // no base64
  }
}
