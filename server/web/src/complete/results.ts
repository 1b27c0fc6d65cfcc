// The original, the given pixels and the completions side by side, those of each number of particles in a row of their
// own where there are several; an overlay shows which pixels were given, or how
// likely each pixel is.

import { call } from "../api/http";
import type { Model } from "../api/models";
import type { FinishedImage } from "../api/job";
import { find, make, pixelScale } from "../base/elements";
import { base64 } from "../pictures/files";
import { Picture } from "../pictures/picture";
import { showError } from "../base/notice";
import { view } from "../viewer/viewer";
import type { Recipe } from "../recipe/recipe";
import type { Occlusion } from "../pictures/occlusion";
import type { ParticlesRow } from "./particles";

const [LARGEST, SMALLEST, GAP] = [112, 84, 10]; // CSS pixels
const KNOWN = [84, 160, 255, 110]; // RGBA
const MAX_BITS = 8; // drawn in the last colour: a uniform guess among 256 values costs as many
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
  name: string; // for screen readers
  evidenceBits: number | null; // null until it is known
  figures: string; // what the viewer says
  open?: () => void; // opens the viewer
}

export class Results {
  completions: Result[] = [];
  private original!: Result;
  private rows: ParticlesRow[] = [];
  private each = 0; // completions in a row
  private occlusion!: Occlusion;
  private model = "";
  private recipe!: RecipeOf;
  private scores: Scores | undefined; // of the original and every completion, once requested
  private readonly box = find("results", HTMLElement);

  constructor() {
    find("overlay", HTMLFormElement).addEventListener("change", () => void this.drawOverlays());
    window.addEventListener("resize", () => this.fit());
  }

  /** Replaces all results by `n` empty completions of a picture in each row; says if the model does not know such. */
  reset(model: Model, original: Picture, occlusion: Occlusion, rows: ParticlesRow[], n: number, recipe: RecipeOf): void {
    this.model = model.id;
    this.recipe = recipe;
    this.occlusion = occlusion;
    this.scores = undefined;
    this.original = result(Picture.of(original.size, original.bytes), "original");
    const given = result(original.copy((pixel) => occlusion.isKnown(pixel)), "given");
    [this.rows, this.each] = [rows, n];
    this.completions = rows.flatMap(({ label }) =>
      Array.from({ length: n }, (_, index) => result(new Picture(original.size), `${index + 1}`, label)),
    );
    const before = [this.original, given];
    [this.original, ...this.completions].forEach((one, index) => (one.open = () => this.open(index)));
    if (rows.length === 1) this.box.replaceChildren(group([...before, ...this.completions]));
    else this.box.replaceChildren(group(before), ...rows.map(({ label }, at) => group(this.inRow(at), label)));
    find("particles-legend", HTMLElement).hidden = true;
    this.box.hidden = find("overlay", HTMLFormElement).hidden = false;
    this.fit();
    void this.drawOverlays();
    find("outlier-note", HTMLElement).hidden = true;
    if (model.typical_bits_per_dim) void this.showOutlierNote();
  }

  /** Shows none; before the first completions and after a change of the model. */
  clear(): void {
    this.box.replaceChildren();
    this.completions = [];
    this.box.hidden = find("overlay", HTMLFormElement).hidden = true;
    find("particles-legend", HTMLElement).hidden = true;
  }

  /** Opens the viewer on one of the original (0) and the completions. */
  private open(index: number): void {
    const viewed = [this.original, ...this.completions].map((result, at) => ({
      picture: result.picture,
      title: result.name[0]!.toUpperCase() + result.name.slice(1),
      figures: at === 0 ? "The picture that is completed" : result.figures,
      model: this.model,
      file: at === 0 ? "original" : `${this.model}-completion-${at}`,
      opener: result.picture.canvas.parentElement!,
      recipe: async () => (at === 0 || !result.picture.done ? undefined : this.recipeOf(at - 1)),
    }));
    view(viewed, index);
  }

  private recipeOf(completion: number): Promise<Recipe | undefined> {
    const { particles } = this.rows[Math.floor(completion / this.each)]!;
    return this.recipe(completion % this.each, particles);
  }

  private async showOutlierNote(): Promise<void> {
    const { original, model } = this;
    const note = await score(model, [original.picture]).then((scores) => scores.outlierNote, () => ""); // a hint, no answer
    if (original !== this.original) return;
    find("outlier-note", HTMLElement).hidden = !note;
    find("outlier-note", HTMLElement).textContent = note;
  }

  /** Shows the figures of a finished completion; a likelihood of null means probability 0. */
  finish(index: number, finished: FinishedImage): void {
    const completion = this.completions[index]!;
    const { caption, picture, name } = completion;
    const { bitsPerDim, evidenceBits, effectiveParticles } = finished;
    const lines = [bitsPerDim === null ? "p = 0" : bitsPerDim.toFixed(2)];
    const texts = [bitsPerDim === null ? "probability 0" : `${lines[0]} bits per dimension`];
    if (evidenceBits !== null && this.occlusion.isKnownAfterHidden) {
      // known rows before all hidden ones cost the same under every completion
      lines.push(`evidence ${evidenceBits.toFixed(1)}`);
      texts.push(`evidence ${evidenceBits.toFixed(1)} bits`);
    }
    const row = Math.floor(index / this.each);
    if (effectiveParticles !== null && this.rows[row]!.particles > 1) {
      lines.push(`effective ${effectiveParticles.toFixed(1)}`);
      texts.push(`${effectiveParticles.toFixed(1)} effective particles at least`);
    }
    // one of both is seen: the name, or the figures where they are unfolded
    caption.replaceChildren(make("b", {}, `${(index % this.each) + 1}`), ...lines.map((line) => make("span", {}, line)));
    picture.canvas.setAttribute("aria-label", [name, ...texts].join(", "));
    completion.figures = texts.join(" · ");
    if (lines.length > 1) find("particles-legend", HTMLElement).hidden = false;
    completion.evidenceBits = evidenceBits;
    this.showMeanEvidence(row);
  }

  /** Adds the mean evidence to the label of a row, if it has one, once all its completions have theirs. */
  private showMeanEvidence(row: number): void {
    const label = this.box.querySelectorAll(".label")[row];
    const each = this.inRow(row).map(({ evidenceBits }) => evidenceBits);
    if (!label || !each.every((bits) => bits !== null)) return;
    const mean = each.reduce((sum, bits) => sum + bits, 0) / each.length;
    label.textContent = `${this.rows[row]!.label} · mean evidence ${mean.toFixed(1)} bits`;
  }

  private inRow(row: number): Result[] {
    return this.completions.slice(row * this.each, (row + 1) * this.each);
  }

  /** Draws the chosen overlay on every picture; likelihoods are requested when all are finished. */
  async drawOverlays(): Promise<void> {
    const chosen = new FormData(find("overlay", HTMLFormElement)).get("over");
    const results = [this.original, ...this.completions];
    find("legend", HTMLElement).hidden = chosen !== "likelihood";
    if (chosen === "likelihood" && this.completions.every(({ picture }) => picture.done)) {
      const pictures = results.map(({ picture }) => picture);
      try {
        this.scores ??= await score(this.model, pictures);
      } catch (error) {
        return showError(error, "complete");
      }
    }
    const shown = chosen === "likelihood" ? this.scores : undefined;
    results.forEach(({ picture, overlay }, index) => {
      fill(overlay, picture, (pixel) => {
        if (chosen === "known") return this.occlusion.isKnown(pixel) ? KNOWN : undefined;
        const bits = shown?.bits[index]?.[pixel];
        return bits === undefined ? undefined : [...colourOf(bits), 225];
      });
    });
    this.box.dataset.over = String(chosen); // the overlay that is drawn, which tests wait for
  }

  private fit(): void {
    if (!this.original || !this.box.clientWidth) return;
    const { width, height } = this.original.picture.size;
    const room = this.box.clientWidth + GAP;
    const figures = this.rows.length === 1 ? this.each + 2 : Math.max(this.each, 2);
    const inOneRow = room / figures - GAP;
    const scale = pixelScale(width, Math.min(LARGEST, inOneRow < SMALLEST ? room / 3 - GAP : inOneRow));
    this.box.style.setProperty("--wide", `${width * scale}px`);
    this.box.style.setProperty("--high", `${height * scale}px`);
  }
}

/** The recipe of a completion, by its number among those with so many particles. */
type RecipeOf = (index: number, particles: number) => Promise<Recipe | undefined>;

/** `row` is the label of its row of completions, where there are several. */
function result(picture: Picture, text: string, row = ""): Result {
  const overlay = make("canvas", { width: picture.size.width, height: picture.size.height, className: "over" });
  picture.canvas.setAttribute("role", "img");
  const name = [/\d/.test(text) ? `Completion ${text}` : text, row].filter(Boolean).join(", ");
  picture.canvas.setAttribute("aria-label", name);
  overlay.setAttribute("aria-hidden", "true");
  return { picture, overlay, name, evidenceBits: null, figures: "not finished", caption: make("figcaption", {}, text) };
}

function figure({ picture, overlay, caption, open }: Result): HTMLElement {
  if (!open) return make("figure", {}, make("div", { className: "stack" }, picture.canvas, overlay), caption);
  const button = make("button", { type: "button", className: "stack" }, picture.canvas, overlay);
  button.addEventListener("click", open);
  return make("figure", {}, button, caption);
}

/** Results side by side, with a label above them. */
function group(results: Result[], label = ""): HTMLElement {
  const row = make("div", { className: "row" }, ...results.map(figure));
  return label ? make("div", { role: "group", ariaLabel: label }, make("p", { className: "label" }, label), row) : row;
}

/** Sets every pixel to its RGBA colour; undefined is transparent. */
function fill(canvas: HTMLCanvasElement, { size }: Picture, colour: (pixel: number) => number[] | undefined): void {
  const context = canvas.getContext("2d")!;
  const pixels = context.createImageData(size.width, size.height);
  for (let pixel = 0; pixel < size.width * size.height; pixel++) pixels.data.set(colour(pixel) ?? [], 4 * pixel);
  context.putImageData(pixels, 0, 0);
}

/** Likelihoods of pictures, the original first. */
interface Scores {
  bits: number[][]; // mean bits per byte of every pixel of each picture, [H * W] each
  outlierNote: string; // a sentence about an original that is unlike the model's test images; else empty
}

interface LikelihoodsAnswer {
  typical_bits_per_dim: [number, number] | null;
  data: {
    bits_per_dim: number | null;
    typical: boolean | null;
    tail_probability: number | null;
    per_pixel: (number | number[])[][];
  }[];
}

async function score(model: string, pictures: Picture[]): Promise<Scores> {
  const image = await Promise.all(pictures.map(({ canvas }) => base64(canvas)));
  const response = await call("v1/images/likelihoods", { model, image, per_pixel: true });
  const answer: LikelihoodsAnswer = await response.json();
  const mean = (bits: number | number[]) =>
    typeof bits === "number" ? bits : bits.reduce((sum, one) => sum + one, 0) / bits.length;
  return { bits: answer.data.map(({ per_pixel }) => per_pixel.flat(1).map(mean)), outlierNote: outlierNoteOf(answer) };
}

function outlierNoteOf({ typical_bits_per_dim: range, data }: LikelihoodsAnswer): string {
  const { bits_per_dim: bits, typical, tail_probability: tail } = data[0]!;
  if (range === null || typical !== false) return "";
  const [low, high] = range.map((limit) => limit.toFixed(2));
  return (
    `The original is unlike the images that the model was tested on (p ≤ ${tail?.toFixed(4)}), so its completions may` +
    ` be poor. It has ${bits?.toFixed(2) ?? "infinitely many"} bits per dimension; 99 % of those have ${low} to ${high}.`
  );
}

/** The colour [red, green, blue] for that many bits. */
function colourOf(bits: number): number[] {
  const at = (Math.min(MAX_BITS, bits) / MAX_BITS) * (COLOURS.length - 1);
  const low = Math.min(COLOURS.length - 2, Math.floor(at));
  return COLOURS[low]!.map((from, channel) => from + (at - low) * (COLOURS[low + 1]![channel]! - from));
}
