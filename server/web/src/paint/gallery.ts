// The gallery: one canvas for all images, and beneath it one button for each, which opens it; the arrow keys move
// between them.

import type { FinishedImage } from "../api/job";
import { find, make, pixelScale } from "../base/elements";
import { Picture, type Box, type Size } from "../pictures/picture";
import { redraw } from "../pictures/redraw";
import { Sheet, type Place } from "./sheet";
import { oneHand } from "./one_hand";
import { layOut } from "./writing";

export interface Tile {
  picture: Picture;
  button: HTMLButtonElement;
  finished: FinishedImage | undefined; // until then
}

const GAP = 6; // CSS pixels, about
const CAPTIONED = 64; // CSS pixels: narrower images have no caption
const CAPTION = 18; // CSS pixels, its height
const LARGEST = 224;
const HIGHEST = 640; // CSS pixels: a gallery that is higher is seen in parts
const WRITTEN = 0.5; // of the window's height: what is written is not higher
const MAX_COLUMNS = 64;

export class Gallery {
  tiles: Tile[] = [];
  private columns = 1;
  private written: string[] | undefined; // the images are its characters that are no blanks
  private letters: Picture[] | undefined; // what is written as it is seen, once all is finished
  private isNamed = false; // each image has a class of its own, which is seen
  private readonly box = find("gallery", HTMLElement);
  private readonly figures = find("paint-figures", HTMLDetailsElement); // unfolded, the bits of each image are seen
  private readonly sheet = new Sheet();

  constructor(private readonly open: (index: number) => void) {
    new ResizeObserver(() => this.fit()).observe(this.box.parentElement!);
    window.addEventListener("resize", () => this.fit()); // the zoom changes without a new size
    this.figures.addEventListener("toggle", () => this.fit());
    this.box.addEventListener("keydown", (event) => this.moveFocus(event));
  }

  get pictures(): Picture[] {
    return this.tiles.map(({ picture }) => picture);
  }

  /** Replaces all images by `n` empty ones, which are the characters of what is `written`, or have classes to be seen. */
  reset(n: number, size: Size, written: string[] | undefined, isNamed: boolean): void {
    this.written = written;
    this.letters = undefined;
    this.isNamed = isNamed;
    for (const { button } of this.tiles) button.remove();
    this.tiles = Array.from({ length: n }, (_, index) => {
      const button = make("button", { type: "button", className: "tile", tabIndex: index ? -1 : 0 });
      button.append(make("span", { className: "visually-hidden" }, `Image ${index + 1}, `));
      button.append(make("span", { className: "bits" }, "not finished"));
      button.addEventListener("click", () => this.open(index));
      return { picture: new Picture(size), button, finished: undefined };
    });
    this.box.prepend(...this.tiles.map(({ button }) => button));
    this.fit();
  }

  /** Writes bytes of an image from position `first` on; returns how many are new. */
  paint(index: number, first: number, bytes: Uint8Array): number {
    redraw(this.sheet);
    return this.tiles[index]!.picture.paint(first, bytes);
  }

  /** Draws what is painted without waiting for the next redraw; what is written is put in its place. */
  draw(): void {
    if (this.written) this.fit();
    else this.sheet.draw();
  }

  /** The images as they are seen, `scale` times enlarged. */
  copy(scale: number): HTMLCanvasElement {
    return this.sheet.copy(scale);
  }

  /** Shows class and likelihood of a finished image. */
  finish(index: number, finished: FinishedImage): void {
    const tile = this.tiles[index]!;
    const { bitsPerDim } = finished;
    tile.finished = finished;
    tile.button.classList.add("done");
    const bits = bitsPerDim === null ? "probability 0" : bitsPerDim.toFixed(2);
    tile.button.title = `${finished.class === null ? "" : `class ${finished.class}, `}${bits} bits per dimension`;
    const figure = make("span", {}, finished.class === null ? bits : ` · ${bits}`);
    tile.button.querySelector(".bits")!.replaceChildren(finished.class ?? "", figure);
    tile.button.append(make("span", { className: "visually-hidden" }, " bits per dimension"));
  }

  /** Chooses columns and scale, so that the images are large and fill the width, but not much more than the window's
   * height; full rows if possible. All distances are whole image pixels, so that each image lies on pixels of the canvas. */
  private fit(): void {
    const room = this.box.parentElement!.clientWidth;
    const n = this.tiles.length;
    if (!n || !room) return;
    const { width, height } = this.tiles[0]!.picture.size;
    if (this.written) return this.fitWriting(this.written, room, pixelScale(width, LARGEST));
    const layoutOf = (columns: number) => {
      const scale = Math.min(pixelScale(width, LARGEST), pixelScale(columns * (width + 1) - 1, room + 1));
      const spare = columns > 1 ? Math.floor((room / scale - columns * width) / (columns - 1)) : 1;
      const gap = Math.max(1, Math.min(spare, Math.round(GAP / scale)));
      const rows = Math.ceil(n / columns);
      const wide = (columns * (width + gap) - gap) * scale;
      const isCaptioned = width * scale >= CAPTIONED && (this.isNamed || this.figures.open);
      const high = rows * ((height + gap) * scale + (isCaptioned ? CAPTION : 0));
      const score = width * scale * Math.min(1, wide / room) * (n / (rows * columns)) ** 2 * Math.min(1, HIGHEST / high);
      return { columns, scale, gap, rows, isCaptioned, score: wide <= room + 1 ? score : 0 };
    };
    const layouts = Array.from({ length: Math.min(n, MAX_COLUMNS) }, (_, index) => layoutOf(index + 1));
    const { columns, scale, gap, rows, isCaptioned } = layouts.reduce((best, one) => (one.score > best.score ? one : best));
    this.columns = columns;
    const across = width + gap;
    const down = height + gap + (isCaptioned ? Math.ceil(CAPTION / scale) : 0);
    const places = this.pictures.map(({ box }, index) => {
      return { left: (index % columns) * across, top: Math.floor(index / columns) * down, seen: box };
    });
    const boxes = places.map(({ left, top }) => ({ left, top, right: left + width, bottom: top + height }));
    const high = (rows - 1) * down + height;
    this.place(this.pictures, places, boxes, (columns - 1) * across + width, high, scale, []);
    if (isCaptioned) this.box.style.height = `${high * scale + CAPTION}px`;
    this.box.classList.toggle("captioned", isCaptioned);
  }

  /** Lays out what is written, in about the upper half of the window. */
  private fitWriting(written: string[], room: number, largest: number): void {
    const highest = Math.min(HIGHEST, WRITTEN * window.innerHeight);
    const { pictures } = this;
    if (pictures.every(({ done }) => done)) this.letters ??= oneHand(pictures);
    const letters = this.letters ?? pictures;
    const layout = layOut(written, letters, { room, highest, largest });
    this.columns = this.tiles.length; // for the arrow keys
    this.place(letters, layout.places, layout.buttons, layout.width, layout.height, layout.scale, layout.grounds);
    this.box.classList.remove("captioned");
  }

  private place(
    pictures: Picture[],
    places: Place[],
    boxes: Box[],
    width: number,
    height: number,
    scale: number,
    grounds: Box[],
  ): void {
    this.sheet.arrange(pictures, places, width, height, scale, grounds);
    this.tiles.forEach(({ button: { style } }, index) => {
      const { left, top, right, bottom } = boxes[index]!;
      style.transform = `translate(${left * scale}px, ${top * scale}px)`; // no shift of the page's layout
      style.width = `${(right - left) * scale}px`;
      style.height = `${(bottom - top) * scale}px`;
    });
    this.box.style.height = `${height * scale}px`;
  }

  private moveFocus(event: KeyboardEvent): void {
    const at = this.tiles.findIndex(({ button }) => button === document.activeElement);
    if (at < 0) return;
    const steps: Record<string, number> = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: this.columns,
      ArrowUp: -this.columns,
      Home: -at,
      End: this.tiles.length - 1 - at,
    };
    const to = this.tiles[at + (steps[event.key] ?? NaN)];
    if (!to) return;
    event.preventDefault();
    this.tiles[at]!.button.tabIndex = -1;
    to.button.tabIndex = 0;
    to.button.focus();
  }
}
