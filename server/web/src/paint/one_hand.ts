// Letters of a word in one hand: as heavy and as upright as the middle one of them. model/images/one_hand.py says how; its
// bytes are equal, so all is in whole numbers, or in quotients and roots that every language rounds alike. Knows no page.

import { Picture } from "../pictures/picture";

type Ink = Int32Array; // a letter's greys

const PART = 64; // slants are in 1/64 of a pixel a row
const FAR_EDGES = 5 / 4; // for those that are measured, since edges that lean far are not
const CLEAR = 5 / 4; // brightness of letters, which are blurred where they are changed
const STEPS = 8; // of weights, between a letter and one that is bolder by a pixel on each side

/** The median, which is one of them; undefined of none. */
export const middle = (values: number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;

/** Light finished letters on black with the slant and the strokes of the middle one of them, as far as a letter can be
 * changed; those in colour as they are. */
export function oneHand(letters: Picture[]): Picture[] {
  const { size } = letters[0]!;
  if (size.channels !== 1) return letters;
  const { width, height } = size;
  const add = (a: number, b: number) => a + b;

  const zip = (ink: Ink, other: Ink, join: (grey: number, other: number) => number) =>
    ink.map((grey, pixel) => join(grey, other[pixel]!));

  /** What a pixel gets where a letter is moved. */
  const greyOf = (ink: Ink, pixel: number, down: number, right: number) => {
    const column = (pixel % width) - right;
    return column >= 0 && column < width ? (ink[pixel - down * width - right] ?? 0) : 0;
  };
  const moved = (ink: Ink, down: number, right: number) => ink.map((_, pixel) => greyOf(ink, pixel, down, right));

  /** A pixel and those beside it, or above and below. */
  const joined = (ink: Ink, down: number, right: number, join: (a: number, b: number) => number) =>
    zip(zip(ink, moved(ink, down, right), join), moved(ink, -down, -right), join);

  const crossed = (ink: Ink, join: (a: number, b: number) => number) =>
    zip(joined(ink, 0, 1, join), joined(ink, 1, 0, join), join);
  const bolder = (ink: Ink) => crossed(ink, Math.max);

  /** Without the edges of its strokes, where these are wider than two pixels. */
  const lighter = (ink: Ink) => {
    const inner = crossed(ink, Math.min);
    const wide = joined(joined(inner, 0, 1, Math.max), 1, 0, Math.max);
    return ink.map((grey, pixel) => grey - Math.min(grey, wide[pixel]!) + inner[pixel]!);
  };

  /** About half the width of its strokes: its ink by its outline's length. */
  const strokeOf = (ink: Ink) => {
    let [sum, outline] = [0, 0];
    ink.forEach((grey, pixel) => {
      const across = grey - greyOf(ink, pixel, 0, 1);
      const down = grey - greyOf(ink, pixel, 1, 0);
      sum += grey;
      outline += Math.floor(Math.sqrt(across * across + down * down));
    });
    return sum / Math.max(1, outline);
  };

  /** How much brighter it gets in a direction, of three lines beside each other. */
  const change = (ink: Ink, down: number, right: number) => {
    const lines = zip(ink, joined(ink, right, down, add), add);
    return zip(moved(lines, -down, -right), moved(lines, down, right), (a, b) => a - b);
  };

  /** How far its nearly upright edges lean to the right. */
  const slantOf = (ink: Ink) => {
    const down = change(ink, 1, 0);
    let [leaning, edges] = [0, 0];
    change(ink, 0, 1).forEach((across, pixel) => {
      const along = down[pixel]!;
      if (4 * along * along >= across * across) return;
      leaning += across * along;
      edges += across * across;
    });
    return Math.floor((FAR_EDGES * PART * leaning) / Math.max(1, edges) + 0.5);
  };

  /** It leans so much less, around the middle row. */
  const sheared = (ink: Ink, lean: number) =>
    ink.map((_, pixel) => {
      const away = lean * (Math.floor(pixel / width) - (height >> 1));
      const right = Math.floor(away / PART);
      const part = away - PART * right;
      const greys = greyOf(ink, pixel, 0, right) * (PART - part) + greyOf(ink, pixel, 0, right + 1) * part;
      return Math.floor(greys / PART);
    });

  const inks = letters.map(({ bytes }) => Int32Array.from(bytes));
  const slants = inks.map(slantOf);
  const slant = middle(slants);
  const stroke = middle(inks.map(strokeOf));
  return inks.map((ink, index) => {
    const upright = sheared(ink, slants[index]! - slant);
    const bold = bolder(upright);
    const levels = [lighter(upright), upright, bold, bolder(bold)];
    let chosen = upright;
    let least = Infinity;
    for (let step = 0; step < 3 * STEPS; step++) {
      const level = Math.floor(step / STEPS);
      const share = step % STEPS;
      const weight = zip(levels[level]!, levels[level + 1]!, (low, high) => {
        const grey = low + Math.floor(((high - low) * share) / STEPS);
        return Math.min(255, CLEAR * grey); // stored as a whole number
      });
      const off = Math.abs(strokeOf(weight) - stroke);
      if (off < least) [chosen, least] = [weight, off];
    }
    return Picture.of(size, new Uint8Array(chosen));
  });
}
