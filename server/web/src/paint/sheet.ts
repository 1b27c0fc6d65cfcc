// The canvas of the gallery: one for all images, because each canvas costs the browser about as much as all of them in
// one. It has one pixel for an image pixel and is enlarged by CSS. What is not painted is transparent.

import { enlarge, find } from "../base/elements";
import type { Picture } from "../pictures/picture";
import type { Drawable } from "../pictures/redraw";

/** Where the images are, in image pixels: in rows of `columns`, `across` and `down` from one to the next. */
export interface Grid {
  columns: number;
  across: number;
  down: number;
}

export class Sheet implements Drawable {
  private readonly canvas = find("sheet", HTMLCanvasElement);
  private readonly context = this.canvas.getContext("2d")!;
  private pictures: Picture[] = [];
  private shown: number[] = []; // pixels of each picture
  private pixels: ImageData | undefined;
  private words = new Uint32Array(); // the same memory, one number a pixel
  private grid: Grid = { columns: 1, across: 0, down: 0 };

  /** Draws the pictures on a grid, each `scale` times enlarged. */
  arrange(pictures: Picture[], grid: Grid, scale: number): void {
    const { width, height } = pictures[0]!.size;
    const rows = Math.ceil(pictures.length / grid.columns);
    this.canvas.width = (grid.columns - 1) * grid.across + width;
    this.canvas.height = (rows - 1) * grid.down + height;
    enlarge(this.canvas, scale);
    this.pixels = this.context.createImageData(this.canvas.width, this.canvas.height);
    this.words = new Uint32Array(this.pixels.data.buffer);
    this.pictures = pictures;
    this.shown = pictures.map(() => 0);
    this.grid = grid;
    this.draw();
  }

  draw(): void {
    if (!this.pixels) return;
    const { columns, across, down } = this.grid;
    const { width } = this.canvas;
    let [top, bottom] = [Infinity, 0]; // of what has changed
    this.pictures.forEach((picture, index) => {
      const [first, end] = [this.shown[index]!, picture.pixels];
      if (first === end) return;
      const row = Math.floor(index / columns) * down;
      picture.write(this.words, first, end, width, row * width + (index % columns) * across);
      this.shown[index] = end;
      top = Math.min(top, row + Math.floor(first / picture.size.width));
      bottom = Math.max(bottom, row + Math.ceil(end / picture.size.width));
    });
    if (top < bottom) this.context.putImageData(this.pixels, 0, 0, 0, top, width, bottom - top);
  }
}
