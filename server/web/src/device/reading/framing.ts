// Pictures of drawings as a model's own stand, byte for byte as in model/images/framing.py: ink on 0, whose paper is taken away,
// and which is as strong, as large and at the place as theirs is.

import type { Cleaning } from "../kernel/model_file";
import { resized, type PictureSize } from "./resizing";

export const INK = 32; // a byte that differs more from the ground is of a stroke
const STROKES = 0.9; // the quantile of the ink that is the value of strokes
const FAINT = 0.9; // of the value of the model's strokes: fainter ones are made as strong
const SCALED = 1.2; // a drawing that is so many times larger or smaller than the model's is scaled
const FITS = 5; // of the surface of paper
const FAR = 3; // times the median distance
const NOISE = 8; // of paper
const IN_MIDDLE = 4 / 7; // of the shorter side
const PALE = 0.25; // of the value of a photo's strokes: what is paler is paper, and what is 0.5 darker is stroke

type Frame = NonNullable<Cleaning["frame"]>;

/** Rounds to the nearest whole number, halves to even. */
export function nearest(x: number): number {
  const floor = Math.floor(x);
  const above = x - floor;
  return above > 0.5 || (above === 0.5 && floor % 2 !== 0) ? floor + 1 : floor;
}

export function median(numbers: ArrayLike<number>): number {
  return quantile(numbers, 0.5);
}

export function isDrawing(ink: Uint8Array): boolean {
  const strokes = ink.filter((byte) => byte > INK).length;
  return strokes > 0 && 2 * strokes <= ink.length;
}

/** Ink whose strokes have this value, where they are fainter. */
export function strong(ink: Uint8Array, stroke: number): Uint8Array {
  const level = levelOf(ink);
  if (!level || level >= FAINT * stroke) return ink;
  return ink.map((byte) => nearest(Math.min(byte * (stroke / level), stroke)));
}

/** Where a photo's drawing stands in a model whose drawings differ in size and place. */
export function inMiddle({ height, width }: PictureSize): Frame {
  return { size: nearest(IN_MIDDLE * Math.min(height, width)), row: height / 2, column: width / 2 };
}

/** The drawing, with strokes of this value, of a grey picture of any size; undefined where nothing is drawn on it. */
export function photo(grey: Uint8Array, from: PictureSize, to: PictureSize, frame: Frame, stroke: number): Uint8Array | undefined {
  const ink = fromPaper(grey, from.height, from.width);
  const level = levelOf(ink);
  if (!level) return undefined;
  const dark = ink.map((byte) => Math.trunc(stroke * Math.min(Math.max((byte / level - PALE) / 0.5, 0), 1)));
  return place(dark, from, to, frame);
}

/** Ink as a drawing of the model: of its size, if it is far from that or another picture's, with its centre of mass where theirs
 * is. */
export function place(ink: Uint8Array, from: PictureSize, { height, width }: PictureSize, frame: Frame): Uint8Array {
  let part = { ink, ...from };
  const box = boxOf(ink, from.width);
  const scale = frame.size / Math.max(box.height, box.width);
  if (from.height !== height || from.width !== width || scale < 1 / SCALED || scale > SCALED) {
    const boxed = new Uint8Array(box.height * box.width);
    const start = (row: number) => (box.top + row) * from.width + box.left;
    for (let row = 0; row < box.height; row++) boxed.set(ink.subarray(start(row), start(row) + box.width), row * box.width);
    const size = { height: Math.max(1, nearest(scale * box.height)), width: Math.max(1, nearest(scale * box.width)) };
    const most = ink.reduce((a, b) => Math.max(a, b));
    part = { ink: strong(resized(boxed, box, size), most), ...size };
  }
  const centre = centreOf(part.ink, part.width);
  const [top, left] = [nearest(frame.row - centre.row), nearest(frame.column - centre.column)];
  const drawing = new Uint8Array(height * width);
  part.ink.forEach((byte, at) => {
    const [row, column] = [top + Math.floor(at / part.width), left + (at % part.width)];
    if (row >= 0 && row < height && column >= 0 && column < width) drawing[row * width + column] = byte;
  });
  return drawing;
}

/** How far each pixel of a picture lies from its paper, a surface of the second degree, on the side where its ink does. */
export function fromPaper(grey: Uint8Array, height: number, width: number): Uint8Array {
  const along = (at: number, length: number) => (length > 1 ? -1 + (2 * at) / (length - 1) : -1);
  const terms = Array.from(grey, (_, at) => {
    const [row, column] = [along(Math.floor(at / width), height), along(at % width, width)];
    return [1, row, column, row * column, row ** 2, column ** 2];
  });
  const middle = median(grey);
  let away = Array.from(grey, (byte) => byte - middle);
  for (let fit = 0; fit < FITS; fit++) {
    const distances = away.map(Math.abs);
    const farthest = Math.max(FAR * median(distances), NOISE);
    const isPaper = (at: number) => distances[at]! <= farthest;
    const surface = leastSquares(terms.filter((_, at) => isPaper(at)), Array.from(grey).filter((_, at) => isPaper(at)));
    away = terms.map((term, at) => grey[at]! - term.reduce((sum, each, i) => sum + each * surface[i]!, 0));
  }
  const isDark = away.reduce((sum, each) => sum + each ** 3, 0) < 0;
  return Uint8Array.from(away, (each) => Math.min(Math.max(nearest(isDark ? -each : each), 0), 255));
}

/** The factors of the terms whose sum is nearest to the values, by the normal equations. */
function leastSquares(terms: number[][], values: number[]): number[] {
  const count = terms[0]!.length;
  const dot = (f: (at: number) => number) => terms.reduce((sum, _, at) => sum + f(at), 0);
  const rows = Array.from({ length: count }, (_, i) => [
    ...Array.from({ length: count }, (_, j) => dot((at) => terms[at]![i]! * terms[at]![j]!)),
    dot((at) => terms[at]![i]! * values[at]!),
  ]);
  for (let i = 0; i < count; i++) {
    const pivot = rows[i]!;
    for (let j = 0; j < count; j++) {
      if (j === i || !pivot[i]) continue;
      const factor = rows[j]![i]! / pivot[i]!;
      rows[j] = rows[j]!.map((each, at) => each - factor * pivot[at]!);
    }
  }
  return rows.map((row, i) => (row[i] ? row[count]! / row[i]! : 0));
}

/** The value of the strokes of ink; 0 where there are none. */
function levelOf(ink: Uint8Array): number {
  const strokes = ink.filter((byte) => byte > INK);
  return strokes.length ? quantile(strokes, STROKES) : 0;
}

function quantile(numbers: ArrayLike<number>, share: number): number {
  const sorted = Float64Array.from(numbers).sort();
  const at = share * (sorted.length - 1);
  const [below, above] = [sorted[Math.floor(at)]!, sorted[Math.ceil(at)]!];
  const part = at - Math.floor(at);
  return part < 0.5 ? below + (above - below) * part : above - (above - below) * (1 - part);
}

/** Rows and columns with strokes. */
function boxOf(ink: Uint8Array, width: number) {
  const inked = Array.from(ink.keys()).filter((at) => ink[at]! > INK);
  const [rows, columns] = [inked.map((at) => Math.floor(at / width)), inked.map((at) => at % width)];
  const [top, left] = [Math.min(...rows), Math.min(...columns)];
  return { top, left, height: Math.max(...rows) + 1 - top, width: Math.max(...columns) + 1 - left };
}

/** The centre of mass. */
function centreOf(ink: Uint8Array, width: number): { row: number; column: number } {
  let [mass, row, column] = [0, 0, 0];
  ink.forEach((byte, at) => {
    mass += byte;
    row += byte * Math.floor(at / width);
    column += byte * (at % width);
  });
  return { row: row / mass, column: column / mass };
}
