// The canvas of the gallery: one for all images, because each canvas costs the browser about as much as all of them in
// one. It has one pixel for an image pixel and is enlarged by CSS. What is not painted is transparent.

import { enlarge, find, make } from "../base/elements";
import type { Box, Picture } from "../pictures/picture";
import type { Drawable } from "../pictures/redraw";

/** Where an image is on the canvas, in image pixels, and the part of it that is seen there. */
export interface Place {
  left: number;
  top: number;
  seen: Box;
}

const BLACK = 255 << 24; // opaque; a pixel is a little endian number

export class Sheet implements Drawable {
  private readonly canvas = find("sheet", HTMLCanvasElement);
  private readonly context = this.canvas.getContext("2d")!;
  private pictures: Picture[] = [];
  private shown: number[] = []; // pixels of each picture
  private pixels: ImageData | undefined;
  private words = new Uint32Array(); // the same memory, one number a pixel
  private places: Place[] = [];

  /** Draws the pictures, each at its place, on a canvas of that size that is `scale` times enlarged. `grounds`: what is
   * black from the start. */
  arrange(pictures: Picture[], places: Place[], width: number, height: number, scale: number, grounds: Box[] = []): void {
    Object.assign(this.canvas, { width, height });
    enlarge(this.canvas, scale);
    this.pixels = this.context.createImageData(width, height);
    this.words = new Uint32Array(this.pixels.data.buffer);
    for (const { left, top, right, bottom } of grounds) {
      for (let row = top; row < bottom; row++) this.words.fill(BLACK, row * width + left, row * width + right);
    }
    this.pictures = pictures;
    this.shown = pictures.map(() => 0);
    this.places = places;
    this.context.putImageData(this.pixels, 0, 0);
    this.draw();
  }

  /** A copy as it is seen, `scale` times enlarged, black where nothing is. */
  copy(scale: number): HTMLCanvasElement {
    const { width, height } = this.canvas;
    const copy = make("canvas", { width: width * scale, height: height * scale });
    const context = copy.getContext("2d")!;
    context.fillRect(0, 0, copy.width, copy.height);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.canvas, 0, 0, copy.width, copy.height);
    return copy;
  }

  draw(): void {
    if (!this.pixels) return;
    const { width, height } = this.canvas;
    let [top, bottom] = [Infinity, 0]; // of what has changed
    this.pictures.forEach((picture, index) => {
      const [first, end] = [this.shown[index]!, picture.pixels];
      if (first === end) return;
      const { left, top: high, seen } = this.places[index]!;
      const row = high - seen.top; // of the picture's first
      picture.write(this.words, first, end, width, row * width + left - seen.left, seen);
      this.shown[index] = end;
      top = Math.max(0, Math.min(top, row + Math.floor(first / picture.size.width)));
      bottom = Math.min(height, Math.max(bottom, row + Math.ceil(end / picture.size.width)));
    });
    if (top < bottom) this.context.putImageData(this.pixels, 0, 0, 0, top, width, bottom - top);
  }
}
