// The drawing, at ten times the model's resolution. Each byte is the mean over a square of 10 x 10, so that strokes are
// anti-aliased like the training images, and an image of the model's own size keeps its values.

import { Picture, type Size } from "../pictures/picture";

const FINE = 10;

export class Ink {
  private readonly context: CanvasRenderingContext2D;

  constructor(readonly size: Size) {
    const canvas = document.createElement("canvas");
    canvas.width = size.width * FINE;
    canvas.height = size.height * FINE;
    this.context = canvas.getContext("2d", { willReadFrequently: true })!;
    this.context.lineCap = this.context.lineJoin = "round";
    this.clear();
  }

  clear(): void {
    this.context.fillStyle = "#000";
    this.context.fillRect(0, 0, this.size.width * FINE, this.size.height * FINE);
  }

  /** Draws a line between two points, in the model's pixels. */
  stroke(from: [number, number], to: [number, number], width: number, colour: string): void {
    this.context.strokeStyle = colour;
    this.context.lineWidth = width * FINE;
    this.context.beginPath();
    this.context.moveTo(from[0] * FINE, from[1] * FINE);
    this.context.lineTo(to[0] * FINE, to[1] * FINE);
    this.context.stroke();
  }

  /** All of it, to keep it and to write it back. */
  get pixels(): ImageData {
    return this.context.getImageData(0, 0, this.size.width * FINE, this.size.height * FINE);
  }

  set pixels(pixels: ImageData) {
    this.context.putImageData(pixels, 0, 0);
  }

  /** Draws an image of any size: scaled to cover, cropped to its centre, white where it is transparent, as in training.
   * Returns what this changed of it, in words; empty where nothing. */
  load(image: CanvasImageSource, width: number, height: number): string {
    const [w, h] = [this.size.width * FINE, this.size.height * FINE];
    const scale = Math.max(w / width, h / height);
    this.context.fillStyle = "#fff";
    this.context.fillRect(0, 0, w, h);
    this.context.imageSmoothingEnabled = width !== this.size.width || height !== this.size.height;
    this.context.imageSmoothingQuality = "high";
    const [wide, high] = [width * scale, height * scale];
    this.context.drawImage(image, (w - wide) / 2, (h - high) / 2, wide, high);
    return this.changes(width, height);
  }

  private changes(width: number, height: number): string {
    const { width: w, height: h, channels } = this.size;
    const isLarger = Math.min(width / w, height / h) > 1;
    const steps = width * h === height * w ? [] : ["cropped"];
    if (width !== w || height !== h) steps.push(`${isLarger ? "shrunk" : "scaled"} to ${w} × ${h}`);
    const { data } = this.pixels;
    const hasColour = (at: number) => data[4 * at] !== data[4 * at + 1] || data[4 * at] !== data[4 * at + 2];
    if (channels === 1 && Array.from({ length: data.length / 4 }, (_, at) => at).some(hasColour)) steps.push("made grey");
    if (!steps.length) return "";
    const last = steps.pop()!;
    const said = steps.length ? `${steps.join(", ")} and ${last}` : last;
    return `The file of ${width.toLocaleString("en")} × ${height.toLocaleString("en")} pixels was ${said}.`;
  }

  invert(): void {
    this.context.globalCompositeOperation = "difference";
    this.context.fillStyle = "#fff";
    this.context.fillRect(0, 0, this.size.width * FINE, this.size.height * FINE);
    this.context.globalCompositeOperation = "source-over";
  }

  /** The picture at the model's resolution. */
  picture(): Picture {
    const { width, height, channels } = this.size;
    const { data } = this.pixels;
    const sums = new Float64Array(width * height * channels);
    for (let y = 0; y < height * FINE; y++) {
      for (let x = 0; x < width * FINE; x++) {
        const from = 4 * (y * width * FINE + x);
        const to = channels * (Math.floor(y / FINE) * width + Math.floor(x / FINE));
        const [red, green, blue] = [data[from]!, data[from + 1]!, data[from + 2]!];
        if (channels === 1) {
          sums[to]! += 0.299 * red + 0.587 * green + 0.114 * blue;
          continue;
        }
        sums[to]! += red;
        sums[to + 1]! += green;
        sums[to + 2]! += blue;
      }
    }
    return Picture.of(
      this.size,
      Uint8Array.from(sums, (sum) => Math.round(sum / FINE ** 2)),
    );
  }
}
