// The original, what the model was given, and its completions side by side; over them what was known, or how
// surprising each pixel is.

import { find, make } from "../elements";
import { sayError } from "../look/notice";
import { Picture } from "../pictures/picture";
import { crisp } from "../pictures/scale";
import { bitsOf, colourOf } from "./likelihoods";
import type { Occlusion } from "./occlusion";

const [LARGEST, SMALLEST, GAP] = [112, 84, 10]; // CSS pixels
const KNOWN = [84, 160, 255];

interface Result {
  picture: Picture;
  over: HTMLCanvasElement;
  caption: HTMLElement;
}

export class Results {
  completions: Result[] = [];
  private original!: Result;
  private occlusion!: Occlusion;
  private model = "";
  private bits: number[][] | undefined; // of the original and every completion, once somebody wanted them
  private readonly box = find("results", HTMLElement);

  constructor() {
    find("overlay", HTMLFormElement).addEventListener("change", () => void this.cover());
    window.addEventListener("resize", () => this.fit());
  }

  /** Places for `n` completions of a picture. */
  lay(model: string, original: Picture, occlusion: Occlusion, n: number): void {
    this.model = model;
    this.occlusion = occlusion;
    this.bits = undefined;
    this.original = result(Picture.of(original.size, original.bytes), "original");
    const given = result(original.copy((pixel) => occlusion.knows(pixel)), "given");
    this.completions = Array.from({ length: n }, (_, index) => result(new Picture(original.size), `${index + 1}`));
    this.box.replaceChildren(...[this.original, given, ...this.completions].map(figure));
    this.box.hidden = find("overlay", HTMLFormElement).hidden = false;
    this.fit();
    void this.cover();
  }

  finish(index: number, bitsPerDim: number | null): void {
    const { caption, picture } = this.completions[index]!;
    caption.textContent = bitsPerDim === null ? "ruled out" : bitsPerDim.toFixed(2);
    picture.canvas.setAttribute("aria-label", `Completion ${index + 1}, ${caption.textContent} bits per dimension`);
  }

  /** Lays what is chosen over the pictures; likelihoods are asked for when all are done. */
  async cover(): Promise<void> {
    const chosen = new FormData(find("overlay", HTMLFormElement)).get("over");
    const all = [this.original, ...this.completions];
    find("legend", HTMLElement).hidden = chosen !== "likelihood";
    if (chosen === "likelihood" && this.completions.every(({ picture }) => picture.done)) {
      try {
        for (const { picture } of all) picture.show();
        this.bits ??= await bitsOf(
          this.model,
          all.map(({ picture }) => picture),
        );
      } catch (error) {
        return sayError(error);
      }
    }
    all.forEach(({ picture, over }, index) => {
      tint(over, picture, (pixel) => {
        if (chosen === "known") return this.occlusion.knows(pixel) ? [...KNOWN, 110] : undefined;
        const bits = chosen === "likelihood" ? this.bits?.[index]?.[pixel] : undefined;
        return bits === undefined ? undefined : [...colourOf(bits), 225];
      });
    });
    this.box.dataset.over = String(chosen); // what is laid over now, not what somebody still waits for
  }

  private fit(): void {
    if (!this.original) return;
    const { width, height } = this.original.picture.size;
    const room = this.box.clientWidth + GAP;
    const inOneRow = room / (this.completions.length + 2) - GAP;
    const scale = crisp(width, Math.min(LARGEST, inOneRow < SMALLEST ? room / 3 - GAP : inOneRow));
    this.box.style.setProperty("--wide", `${width * scale}px`);
    this.box.style.setProperty("--high", `${height * scale}px`);
  }
}

function result(picture: Picture, name: string): Result {
  const over = make("canvas", { width: picture.size.width, height: picture.size.height, className: "over" });
  picture.canvas.setAttribute("role", "img");
  picture.canvas.setAttribute("aria-label", /\d/.test(name) ? `Completion ${name}` : name);
  over.setAttribute("aria-hidden", "true");
  return { picture, over, caption: make("figcaption", {}, name) };
}

const figure = ({ picture, over, caption }: Result): HTMLElement =>
  make("figure", {}, make("div", { className: "stack" }, picture.canvas, over), caption);

function tint(over: HTMLCanvasElement, { size }: Picture, colour: (pixel: number) => number[] | undefined): void {
  const context = over.getContext("2d")!;
  const pixels = context.createImageData(size.width, size.height);
  for (let pixel = 0; pixel < size.width * size.height; pixel++) pixels.data.set(colour(pixel) ?? [], 4 * pixel);
  context.putImageData(pixels, 0, 0);
}
