// Pictures as files: a PNG of one, a PNG sheet of all, a .npy array of all.

import { toBase64 } from "../base/base64";
import type { Picture } from "./picture";

/** A PNG of a canvas, at its own resolution. */
export function png(canvas: HTMLCanvasElement): Promise<Blob> {
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The browser cannot write a PNG."))), "image/png"),
  );
}

/** The columns of a sheet of so many pictures. */
export const columnsOf = (count: number): number => Math.ceil(Math.sqrt(count));

/** One picture of all, row by row, in a near-square grid as the API arranges them, `scale` times enlarged: from 2 on with
 * white gaps of a pixel, as `scanline sample --scale` has them. */
export function sheet(pictures: Picture[], scale: number): HTMLCanvasElement {
  const { width, height } = pictures[0]!.size;
  const columns = columnsOf(pictures.length);
  const rows = Math.ceil(pictures.length / columns);
  const gap = scale > 1 ? 1 : 0;
  const canvas = document.createElement("canvas");
  canvas.width = (columns * (width + gap) - gap) * scale;
  canvas.height = (rows * (height + gap) - gap) * scale;
  const context = canvas.getContext("2d")!;
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = "#000";
  context.imageSmoothingEnabled = false;
  context.scale(scale, scale);
  for (let cell = 0; cell < rows * columns; cell++) {
    const [left, top] = [(cell % columns) * (width + gap), Math.floor(cell / columns) * (height + gap)];
    if (cell < pictures.length) context.drawImage(pictures[cell]!.canvas, left, top);
    else context.fillRect(left, top, width, height);
  }
  return canvas;
}

/** One array [n, H, W] or [n, H, W, 3] of all pictures, uint8. */
export function array(pictures: Picture[]): Blob {
  const { width, height, channels } = pictures[0]!.size;
  const all = new Uint8Array(pictures.length * pictures[0]!.bytes.length);
  pictures.forEach((picture, index) => all.set(picture.bytes, index * picture.bytes.length));
  return npy(all, [pictures.length, height, width, ...(channels === 1 ? [] : [channels])]);
}

/** A .npy file, format 1.0, as numpy.save writes it. */
function npy(bytes: Uint8Array, shape: number[]): Blob {
  const header = `{'descr': '|u1', 'fortran_order': False, 'shape': (${shape.join(", ")}), }`;
  const magic = "\x93NUMPY\x01\x00";
  const length = Math.ceil((magic.length + 2 + header.length + 1) / 64) * 64 - magic.length - 2;
  const text = `${magic}${String.fromCharCode(length & 255, length >> 8)}${header.padEnd(length - 1)}\n`;
  return new Blob([Uint8Array.from(text, (letter) => letter.charCodeAt(0)), bytes as BlobPart]);
}

/** The PNG of a canvas in base64. */
export async function base64(canvas: HTMLCanvasElement): Promise<string> {
  return toBase64(new Uint8Array(await (await png(canvas)).arrayBuffer()));
}

/** Downloads a file. */
export function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
