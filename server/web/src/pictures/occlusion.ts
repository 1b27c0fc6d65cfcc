// Which pixels are known and which are to be painted: all below a row, and those that the user has hidden.

import { base64 } from "./files";
import type { Size } from "./picture";

export class Occlusion {
  readonly masked: Uint8Array; // 1 for pixels that the user has hidden
  rows: number; // rows to keep

  constructor(readonly size: Size) {
    this.masked = new Uint8Array(size.width * size.height);
    this.rows = Math.floor(size.height / 2);
  }

  isKnown(pixel: number): boolean {
    return pixel < this.rows * this.size.width && !this.masked[pixel];
  }

  /** The number of pixels to paint. */
  get hidden(): number {
    return this.masked.filter((_, pixel) => !this.isKnown(pixel)).length;
  }

  /** Whether a known pixel follows a hidden one in raster order. */
  get isKnownAfterHidden(): boolean {
    const first = this.masked.findIndex((_, pixel) => !this.isKnown(pixel));
    return first >= 0 && this.masked.some((_, pixel) => pixel > first && this.isKnown(pixel));
  }

  /** Hides all pixels whose centre is at most `radius` from a point. */
  hide(x: number, y: number, radius: number): void {
    const { width } = this.size;
    this.masked.forEach((_, pixel) => {
      const [right, down] = [(pixel % width) + 0.5 - x, Math.floor(pixel / width) + 0.5 - y];
      if (right * right + down * down <= radius * radius) this.masked[pixel] = 1;
    });
  }

  copy(): Occlusion {
    const copy = new Occlusion(this.size);
    copy.rows = this.rows;
    copy.masked.set(this.masked);
    return copy;
  }

  /** The request fields for it: rows if they suffice, otherwise a mask. */
  async fields(): Promise<{ keep_rows: number } | { mask: string }> {
    if (!this.masked.includes(1)) return { keep_rows: this.rows };
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: this.size.width, height: this.size.height });
    const context = canvas.getContext("2d")!;
    this.masked.forEach((_, pixel) => {
      if (this.isKnown(pixel)) context.fillRect(pixel % this.size.width, Math.floor(pixel / this.size.width), 1, 1);
    });
    return { mask: await base64(canvas) };
  }
}
