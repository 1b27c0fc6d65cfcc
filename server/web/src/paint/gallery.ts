// The gallery: a button for every image, which opens it; arrow keys go from one to the next.

import { find, make } from "../elements";
import { crisp } from "../pictures/scale";
import { Picture, type Size } from "../pictures/picture";

export interface Tile {
  picture: Picture;
  button: HTMLButtonElement;
  bitsPerDim: number | null | undefined; // undefined until it is done
}

const GAP = 6;
const CAPTIONED = 64; // CSS pixels of width that a figure below an image needs
const LARGEST = 168;

export class Gallery {
  tiles: Tile[] = [];
  private readonly box = find("gallery", HTMLElement);

  constructor(private readonly opened: (index: number) => void) {
    new ResizeObserver(() => this.fit()).observe(this.box);
    window.addEventListener("resize", () => this.fit()); // also when only the zoom changes
    this.box.addEventListener("keydown", (event) => this.walk(event));
  }

  get pictures(): Picture[] {
    return this.tiles.map(({ picture }) => picture);
  }

  /** Empty canvases for `n` images. */
  lay(n: number, size: Size): void {
    this.tiles = Array.from({ length: n }, (_, index) => {
      const picture = new Picture(size);
      picture.canvas.setAttribute("aria-hidden", "true");
      const button = make("button", { type: "button", className: "tile", tabIndex: index ? -1 : 0 }, picture.canvas);
      button.setAttribute("aria-label", `Image ${index + 1}, not done yet`);
      button.append(make("span", { className: "bits" }));
      button.addEventListener("click", () => this.opened(index));
      return { picture, button, bitsPerDim: undefined };
    });
    this.box.replaceChildren(...this.tiles.map(({ button }) => button));
    this.fit();
  }

  finish(index: number, bitsPerDim: number | null): void {
    const tile = this.tiles[index]!;
    tile.bitsPerDim = bitsPerDim;
    tile.button.classList.add("done");
    const told = bitsPerDim === null ? "not possible under the model" : `${bitsPerDim.toFixed(3)} bits per dimension`;
    tile.button.setAttribute("aria-label", `Image ${index + 1}, ${told}`);
    tile.button.title = told;
    tile.button.querySelector(".bits")!.textContent = bitsPerDim?.toFixed(2) ?? "";
  }

  /** The largest whole scale at which all are seen at once, in rows that are full where that is near. */
  private fit(): void {
    const first = this.tiles[0];
    const room = this.box.clientWidth;
    if (!first || !room) return;
    const { width, height } = first.picture.size;
    const n = this.tiles.length;
    const about = Math.max(Math.min(n, room < 700 ? 4 : 6), Math.ceil(Math.sqrt(n * 1.8 * Math.min(1, room / 700))));
    const columns = [0, -1, 1, -2, 2].map((more) => about + more).find((full) => full > 2 && n % full === 0) ?? about;
    const scale = crisp(width, Math.min(LARGEST, (room + GAP) / columns - GAP));
    this.box.style.setProperty("--columns", String(columns));
    this.box.style.setProperty("--wide", `${width * scale}px`);
    this.box.style.setProperty("--high", `${height * scale}px`);
    this.box.classList.toggle("captioned", width * scale >= CAPTIONED);
  }

  private walk(event: KeyboardEvent): void {
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
