// What makes drawings of pictures that people have of them, as in model/images/cleaning.py. All works on ink: how far each byte
// is from the model's ground.

import type { Cleaning, ModelFile } from "../kernel/model_file";
import { fromPaper, inMiddle, INK, isDrawing, median, photo, place, strong } from "./framing";
import { nearestOf, type PictureSize } from "./resizing";

const MIN_NOISE = 2; // in which strokes become even

type Shape = ModelFile["shape"];

/** A picture as the model reads it, and the noise that it had. */
export function cleaned(picture: Uint8Array, shape: Shape, cleaning: Cleaning): { bytes: Uint8Array; noise: number } {
  const { ground, frame } = cleaning;
  const stroke = Math.abs(cleaning.stroke - ground);
  const { height, width, channels } = shape;
  const isGrey = channels === 1;
  let ink: Uint8Array = picture.map((byte) => Math.abs(byte - ground));
  if (isGrey && median(edgeOf(ink, shape)) > INK) {
    const drawn = fromPaper(ink, height, width);
    if (isDrawing(drawn)) ink = drawn;
  }
  const noise = noiseOf(ink, shape);
  ink = ink.map((byte) => {
    if (byte <= noise) return 0;
    return noise > MIN_NOISE && byte >= stroke - noise ? stroke : byte;
  });
  if (isGrey && isDrawing(ink)) {
    ink = strong(ink, stroke);
    if (frame) ink = place(ink, shape, shape, frame);
  }
  return { bytes: ink.map((byte) => Math.abs(byte - ground)), noise };
}

/** The drawing on a grey picture of any size, as a grey model reads it; undefined where nothing is drawn on it. */
export function drawingOn(grey: Uint8Array, size: PictureSize, shape: Shape, cleaning: Cleaning): Uint8Array | undefined {
  const { ground, stroke, frame } = cleaning;
  const drawing = () => photo(grey, size, shape, frame ?? inMiddle(shape), Math.abs(stroke - ground));
  const sent = enlargedFrom(grey, size, shape) ?? drawing()?.map((byte) => Math.abs(byte - ground));
  return sent && cleaned(sent, shape, cleaning).bytes;
}

/** The picture of this size of which another is a copy, or is enlarged in its proportions; undefined where it is not. */
function enlargedFrom(grey: Uint8Array, from: PictureSize, to: PictureSize): Uint8Array | undefined {
  if (from.width * to.height !== from.height * to.width || from.width < to.width) return undefined;
  const small = nearestOf(grey, from, to);
  const again = nearestOf(small, to, from);
  return grey.every((byte, at) => byte === again[at]) ? small : undefined;
}

/** The largest difference from the ground where no stroke is near; 0 of a picture that is no drawing. */
function noiseOf(ink: Uint8Array, shape: Shape): number {
  const { height, width, channels } = shape;
  const isStroke = Array.from({ length: height * width }, (_, pixel) =>
    ink.subarray(pixel * channels, (pixel + 1) * channels).some((byte) => byte > INK),
  );
  const strokes = isStroke.filter(Boolean).length;
  const edge = edgeOf(ink, shape);
  const isOpposite = 2 * edge.filter((byte) => byte > 127).length > edge.length;
  if (!strokes || 2 * strokes > height * width || isOpposite) return 0;
  const isNear = (row: number, column: number) => {
    for (let y = Math.max(row - 1, 0); y <= Math.min(row + 1, height - 1); y++)
      for (let x = Math.max(column - 1, 0); x <= Math.min(column + 1, width - 1); x++) if (isStroke[y * width + x]) return true;
    return false;
  };
  return ink.reduce((most, byte, at) => {
    const pixel = Math.floor(at / channels);
    return byte > most && !isNear(Math.floor(pixel / width), pixel % width) ? byte : most;
  }, 0);
}

function edgeOf(ink: Uint8Array, { height, width, channels }: Shape): Uint8Array {
  return ink.filter((_, at) => {
    const pixel = Math.floor(at / channels);
    const [row, column] = [Math.floor(pixel / width), pixel % width];
    return row === 0 || row === height - 1 || column === 0 || column === width - 1;
  });
}
