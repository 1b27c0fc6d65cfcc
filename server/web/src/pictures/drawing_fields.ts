// A drawing and what is hidden of it as fields of an address, which brings both back: the bytes of the image, the rows
// to keep, and one bit for each pixel that the brush has hidden.

import { fromBase64, toBase64Url } from "../base/base64";
import { packed, unpacked } from "../base/bits";
import { Picture, type Size } from "./picture";
import { Occlusion } from "./occlusion";

export function writeDrawing(fields: URLSearchParams, image: Picture, occlusion: Occlusion): void {
  fields.set("image", toBase64Url(image.bytes));
  fields.set("rows", String(occlusion.rows));
  const { masked } = occlusion;
  if (masked.includes(1)) fields.set("mask", toBase64Url(packed(masked)));
}

/** Returns undefined where the fields have no image of this size. */
export function readDrawing(fields: URLSearchParams, size: Size): { image: Picture; occlusion: Occlusion } | undefined {
  const bytes = fromText(fields.get("image"));
  if (bytes?.length !== size.width * size.height * size.channels) return undefined;
  const { width, height, channels } = size;
  const occlusion = new Occlusion({ width, height, channels });
  const rows = Number(fields.get("rows"));
  occlusion.rows = Math.max(0, Math.min(height, Number.isInteger(rows) ? rows : 0));
  occlusion.masked.set(unpacked(fromText(fields.get("mask")) ?? new Uint8Array(), width * height));
  return { image: Picture.of(occlusion.size, bytes), occlusion };
}

function fromText(text: string | null): Uint8Array | undefined {
  try {
    return text === null ? undefined : fromBase64(text);
  } catch {
    return undefined; // no base64
  }
}
