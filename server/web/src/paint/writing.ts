// Where the letters of what is written stand, in image pixels: words with gaps for blanks, in lines that break between
// words. A finished letter is as wide as its ink, and all stand on one line. Knows no page.

import type { Box, Picture } from "../pictures/picture";
import { middle } from "./one_hand";
import type { Place } from "./sheet";

export const BLANK = " ";

const USUAL = 0.75; // of a picture's width: what a letter takes until it is finished, and seldom more afterwards
const INK = 64; // greys from this on are ink
const SPACE = 4; // between the ink of two letters
const GAP = 0.45; // of a picture's width, for a blank
const DESCENDERS = /[gjpqyQ]/; // they have ink below the line
const FAR = 4; // pixels: a letter that is further from the line is not moved
const SMALLEST = 1; // CSS pixels for an image pixel: words that do not fit so are broken

export interface Writing {
  places: Place[]; // one for each picture
  buttons: Box[]; // likewise
  grounds: Box[]; // the lines, once all is finished
  width: number;
  height: number;
  scale: number;
}

interface Letter {
  seen: Box;
  advance: number;
  foot: number | undefined; // where it stands, if that can be seen
}

/** Lays out `characters`, with a picture for each that is no blank, as large as `room` and `highest` allow, in CSS pixels;
 * `largest` is the scale that is not exceeded. */
export function layOut(
  characters: string[],
  pictures: Picture[],
  { room, highest, largest }: { room: number; highest: number; largest: number },
): Writing {
  const { width, height } = pictures[0]!.size;
  const gap = Math.round(GAP * width);
  const usual = Math.round(USUAL * width);
  const named = characters.filter((character) => character !== BLANK);
  const letters = pictures.map((picture, index) => letterOf(picture, named[index]!, usual));
  const words = wordsOf(characters);
  // finished letters are narrower: the lines stay as they were when nothing was painted
  const expected = (index: number) => Math.max(usual, letters[index]!.advance);
  let scale = largest;
  let lines: number[][][];
  for (;;) {
    lines = linesOf(words, expected, room / scale, gap);
    const isWhole = lines.flat().length === words.length;
    if (scale <= SMALLEST || (isWhole && lines.length * height * scale <= highest)) break;
    scale = Math.max(SMALLEST, scale - 1 / devicePixelRatio);
  }
  const isFinished = pictures.every(({ done }) => done);
  const base: number | undefined = middle(letters.flatMap(({ foot }) => foot ?? []));
  const writing: Writing = { places: [], buttons: [], grounds: [], width: 0, height: lines.length * height, scale };
  lines.forEach((line, row) => {
    const top = row * height;
    let left = 0;
    line.forEach((word, at) => {
      if (at) left += gap;
      for (const index of word) {
        const { seen, advance, foot } = letters[index]!;
        const off = base === undefined || foot === undefined ? 0 : base - foot;
        const down = Math.abs(off) > FAR ? 0 : off;
        const rows = { top: Math.max(0, -down), bottom: height - Math.max(0, down) };
        const middle = left + ((advance - seen.right + seen.left) >> 1);
        writing.places[index] = { left: middle, top: top + Math.max(0, down), seen: { ...seen, ...rows } };
        writing.buttons[index] = { left, top, right: left + advance, bottom: top + height };
        left += advance;
      }
    });
    writing.width = Math.max(writing.width, left);
    if (isFinished) writing.grounds.push({ left: 0, top, right: left, bottom: top + height });
  });
  return writing;
}

/** The indices of the pictures of each word. */
function wordsOf(characters: string[]): number[][] {
  const words: number[][] = [];
  let count = 0;
  characters.forEach((character, at) => {
    if (character === BLANK) return;
    if (at === 0 || characters[at - 1] === BLANK) words.push([]);
    words.at(-1)!.push(count++);
  });
  return words;
}

/** Lines of words, as many words in each as fit; longer words are broken. */
function linesOf(words: number[][], advanceOf: (index: number) => number, room: number, gap: number): number[][][] {
  const lines: number[][][] = [];
  let left = Infinity; // what the last line has
  for (const word of words) {
    const wide = word.reduce((sum, index) => sum + advanceOf(index), 0);
    if (left + gap + wide <= room) {
      lines.at(-1)!.push(word);
      left += gap + wide;
      continue;
    }
    lines.push([[]]);
    left = 0;
    for (const index of word) {
      if (left && left + advanceOf(index) > room) {
        lines.push([[]]);
        left = 0;
      }
      lines.at(-1)![0]!.push(index);
      left += advanceOf(index);
    }
  }
  return lines;
}

/** The part of a picture that is its letter: of a finished grey one the columns of its ink. */
function letterOf(picture: Picture, character: string, usual: number): Letter {
  const { width, height, channels } = picture.size;
  const margin = (width - usual) >> 1;
  const whole = { seen: { left: margin, top: 0, right: margin + usual, bottom: height }, advance: usual, foot: undefined };
  if (!picture.done || channels !== 1) return whole;
  const seen = { left: width, top: 0, right: 0, bottom: height };
  let foot = 0;
  picture.bytes.forEach((byte, pixel) => {
    if (byte < INK) return;
    const column = pixel % width;
    seen.left = Math.min(seen.left, column);
    seen.right = Math.max(seen.right, column + 1);
    foot = Math.ceil((pixel + 1) / width);
  });
  if (!foot) return whole;
  return { seen, advance: seen.right - seen.left + SPACE, foot: DESCENDERS.test(character) ? undefined : foot };
}
