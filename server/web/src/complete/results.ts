// The original, the given pixels and the completions side by side; an overlay shows which pixels were given, or how
// likely each pixel is.

import { call } from "../api/http";
import { find, make, pixelScale } from "../elements";
import { base64, png } from "../pictures/files";
import { Picture } from "../pictures/picture";
import { showError } from "../shell/notice";
import type { Occlusion } from "./occlusion";

const [LARGEST, SMALLEST, GAP] = [112, 84, 10]; // CSS pixels
const KNOWN = [84, 160, 255, 110]; // RGBA
const MOST_BITS = 8; // drawn in the last colour: a uniform guess among 256 values costs as many
const COLOURS = [
  [4, 6, 20],
  [76, 20, 110],
  [188, 55, 84],
  [249, 142, 9],
  [252, 255, 164],
];

interface Result {
  picture: Picture;
  overlay: HTMLCanvasElement;
  caption: HTMLElement;
}

export class Results {
  completions: Result[] = [];
  private original!: Result;
  private occlusion!: Occlusion;
  private model = "";
  private bits: number[][] | undefined; // of the original and every completion, once requested
  private readonly box = find("results", HTMLElement);

  constructor() {
    find("overlay", HTMLFormElement).addEventListener("change", () => void this.drawOverlays());
    window.addEventListener("resize", () => this.fit());
  }

  /** Replaces all results by `n` empty completions of a picture. */
  reset(model: string, original: Picture, occlusion: Occlusion, n: number): void {
    this.model = model;
    this.occlusion = occlusion;
    this.bits = undefined;
    this.original = result(Picture.of(original.size, original.bytes), "original");
    const given = result(original.copy((pixel) => occlusion.isKnown(pixel)), "given");
    this.completions = Array.from({ length: n }, (_, index) => result(new Picture(original.size), `${index + 1}`));
    this.box.replaceChildren(...[this.original, given, ...this.completions].map(figure));
    this.box.hidden = find("overlay", HTMLFormElement).hidden = false;
    this.fit();
    void this.drawOverlays();
  }

  /** Shows the likelihood of a finished completion; null means probability 0. */
  finish(index: number, bitsPerDim: number | null): void {
    const { caption, picture } = this.completions[index]!;
    caption.textContent = bitsPerDim === null ? "p = 0" : bitsPerDim.toFixed(2);
    const text = bitsPerDim === null ? "probability 0" : `${caption.textContent} bits per dimension`;
    picture.canvas.setAttribute("aria-label", `Completion ${index + 1}, ${text}`);
  }

  /** Draws the chosen overlay on every picture; likelihoods are requested when all are finished. */
  async drawOverlays(): Promise<void> {
    const chosen = new FormData(find("overlay", HTMLFormElement)).get("over");
    const results = [this.original, ...this.completions];
    find("legend", HTMLElement).hidden = chosen !== "likelihood";
    if (chosen === "likelihood" && this.completions.every(({ picture }) => picture.done)) {
      const pictures = results.map(({ picture }) => picture);
      try {
        this.bits ??= await bitsPerPixel(this.model, pictures);
      } catch (error) {
        return showError(error);
      }
    }
    results.forEach(({ picture, overlay }, index) => {
      fill(overlay, picture, (pixel) => {
        if (chosen === "known") return this.occlusion.isKnown(pixel) ? KNOWN : undefined;
        const bits = chosen === "likelihood" ? this.bits?.[index]?.[pixel] : undefined;
        return bits === undefined ? undefined : [...colourOf(bits), 225];
      });
    });
    this.box.dataset.over = String(chosen); // the overlay that is drawn, which tests wait for
  }

  private fit(): void {
    if (!this.original) return;
    const { width, height } = this.original.picture.size;
    const room = this.box.clientWidth + GAP;
    const inOneRow = room / (this.completions.length + 2) - GAP;
    const scale = pixelScale(width, Math.min(LARGEST, inOneRow < SMALLEST ? room / 3 - GAP : inOneRow));
    this.box.style.setProperty("--wide", `${width * scale}px`);
    this.box.style.setProperty("--high", `${height * scale}px`);
  }
}

function result(picture: Picture, name: string): Result {
  const overlay = make("canvas", { width: picture.size.width, height: picture.size.height, className: "over" });
  picture.canvas.setAttribute("role", "img");
  picture.canvas.setAttribute("aria-label", /\d/.test(name) ? `Completion ${name}` : name);
  overlay.setAttribute("aria-hidden", "true");
  return { picture, overlay, caption: make("figcaption", {}, name) };
}

const figure = ({ picture, overlay, caption }: Result): HTMLElement =>
  make("figure", {}, make("div", { className: "stack" }, picture.canvas, overlay), caption);

/** Sets every pixel to its RGBA colour; undefined is transparent. */
function fill(canvas: HTMLCanvasElement, { size }: Picture, colour: (pixel: number) => number[] | undefined): void {
  const context = canvas.getContext("2d")!;
  const pixels = context.createImageData(size.width, size.height);
  for (let pixel = 0; pixel < size.width * size.height; pixel++) pixels.data.set(colour(pixel) ?? [], 4 * pixel);
  context.putImageData(pixels, 0, 0);
}

/** Mean bits per byte of every pixel of each picture, [H * W] each. */
async function bitsPerPixel(model: string, pictures: Picture[]): Promise<number[][]> {
  const image = await Promise.all(pictures.map(async ({ canvas }) => base64(await png(canvas))));
  const response = await call("v1/images/likelihoods", { model, image, per_pixel: true });
  const { data }: { data: { per_pixel: (number | number[])[][] }[] } = await response.json();
  const mean = (bits: number | number[]) =>
    typeof bits === "number" ? bits : bits.reduce((sum, one) => sum + one, 0) / bits.length;
  return data.map(({ per_pixel }) => per_pixel.flat(1).map(mean));
}

/** The colour [red, green, blue] for that many bits. */
function colourOf(bits: number): number[] {
  const at = (Math.min(MOST_BITS, bits) / MOST_BITS) * (COLOURS.length - 1);
  const low = Math.min(COLOURS.length - 2, Math.floor(at));
  return COLOURS[low]!.map((from, channel) => from + (at - low) * (COLOURS[low + 1]![channel]! - from));
}
