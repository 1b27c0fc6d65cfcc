// The gallery: one button for each image, which opens it; the arrow keys move between them.

import { find, make, pixelScale } from "../elements";
import { Picture, type Size } from "../pictures/picture";

export interface Tile {
  picture: Picture;
  button: HTMLButtonElement;
  bitsPerDim: number | null | undefined; // undefined until the image is finished
}

const GAP = 6;
const CAPTIONED = 64; // CSS pixels: narrower images have no caption
const LARGEST = 168;

export class Gallery {
  tiles: Tile[] = [];
  private readonly box = find("gallery", HTMLElement);

  constructor(private readonly open: (index: number) => void) {
    new ResizeObserver(() => this.fit()).observe(this.box);
    window.addEventListener("resize", () => this.fit()); // the zoom changes without a new size
    this.box.addEventListener("keydown", (event) => this.moveFocus(event));
  }

  get pictures(): Picture[] {
    return this.tiles.map(({ picture }) => picture);
  }

  /** Replaces all images by `n` empty ones. */
  reset(n: number, size: Size): void {
    this.tiles = Array.from({ length: n }, (_, index) => {
      const picture = new Picture(size);
      picture.canvas.setAttribute("aria-hidden", "true");
      const button = make("button", { type: "button", className: "tile", tabIndex: index ? -1 : 0 }, picture.canvas);
      button.setAttribute("aria-label", `Image ${index + 1}, not finished`);
      button.append(make("span", { className: "bits" }));
      button.addEventListener("click", () => this.open(index));
      return { picture, button, bitsPerDim: undefined };
    });
    this.box.replaceChildren(...this.tiles.map(({ button }) => button));
    this.fit();
  }

  /** Shows the likelihood of a finished image; null means probability 0. */
  finish(index: number, bitsPerDim: number | null): void {
    const tile = this.tiles[index]!;
    tile.bitsPerDim = bitsPerDim;
    tile.button.classList.add("done");
    const text = bitsPerDim === null ? "probability 0 under the model" : `${bitsPerDim.toFixed(3)} bits per dimension`;
    tile.button.setAttribute("aria-label", `Image ${index + 1}, ${text}`);
    tile.button.title = text;
    tile.button.querySelector(".bits")!.textContent = bitsPerDim?.toFixed(2) ?? "";
  }

  /** Chooses columns and scale: 1.8 times as many columns as rows in a wide window, full rows if possible. */
  private fit(): void {
    const first = this.tiles[0];
    const room = this.box.clientWidth;
    if (!first || !room) return;
    const { width, height } = first.picture.size;
    const n = this.tiles.length;
    const estimate = Math.max(Math.min(n, room < 700 ? 4 : 6), Math.ceil(Math.sqrt(n * 1.8 * Math.min(1, room / 700))));
    const near = [0, -1, 1, -2, 2].map((more) => estimate + more);
    const columns = near.find((count) => count > 2 && n % count === 0) ?? estimate;
    const scale = pixelScale(width, Math.min(LARGEST, (room + GAP) / columns - GAP));
    this.box.style.setProperty("--columns", String(columns));
    this.box.style.setProperty("--wide", `${width * scale}px`);
    this.box.style.setProperty("--high", `${height * scale}px`);
    this.box.classList.toggle("captioned", width * scale >= CAPTIONED);
  }

  private moveFocus(event: KeyboardEvent): void {
    const at = this.tiles.findIndex(({ button }) => button === document.activeElement);
    if (at < 0) return;
    const top = (index: number) => this.tiles[index]!.button.offsetTop;
    const columns = Math.max(1, this.tiles.filter((_, index) => top(index) === top(0)).length);
    const steps: Record<string, number> = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: columns,
      ArrowUp: -columns,
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
