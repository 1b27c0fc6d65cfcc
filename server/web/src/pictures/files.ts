// Pictures as files: one, all on a sheet, all as an array.

import { npy } from "./npy";
import type { Picture } from "./picture";

/** A PNG of one picture, pixel for pixel. */
export function png(canvas: HTMLCanvasElement): Promise<Blob> {
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The browser cannot write a PNG."))), "image/png"),
  );
}

/** One PNG of them all, row by row, in the nearest square, as the API lays them out. */
export function sheet(pictures: Picture[]): Promise<Blob> {
  const { width, height } = pictures[0]!.size;
  const columns = Math.ceil(Math.sqrt(pictures.length));
  const canvas = document.createElement("canvas");
  canvas.width = columns * width;
  canvas.height = Math.ceil(pictures.length / columns) * height;
  const context = canvas.getContext("2d")!;
  context.fillRect(0, 0, canvas.width, canvas.height);
  pictures.forEach((picture, index) => {
    picture.show();
    context.drawImage(picture.canvas, (index % columns) * width, Math.floor(index / columns) * height);
  });
  return png(canvas);
}

/** One array [n, H, W] or [n, H, W, 3] of them all. */
export function array(pictures: Picture[]): Blob {
  const { width, height, channels } = pictures[0]!.size;
  const all = new Uint8Array(pictures.length * pictures[0]!.bytes.length);
  pictures.forEach((picture, index) => all.set(picture.bytes, index * picture.bytes.length));
  return npy(all, [pictures.length, height, width, ...(channels === 1 ? [] : [channels])]);
}

/** Hands a file to the visitor. */
export function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
