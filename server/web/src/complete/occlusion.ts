// What of a picture is known and what shall be painted: rows below a line, and whatever was painted over.

import { png } from "../pictures/files";
import type { Size } from "../pictures/picture";

export class Occlusion {
  readonly over: Uint8Array; // 1 where a pixel was painted over
  rows: number; // that are kept

  constructor(readonly size: Size) {
    this.over = new Uint8Array(size.width * size.height);
    this.rows = Math.floor(size.height / 2);
  }

  /** Whether a pixel is known. */
  knows(pixel: number): boolean {
    return pixel < this.rows * this.size.width && !this.over[pixel];
  }

  /** Whether nothing is left to paint. */
  get empty(): boolean {
    return this.over.every((_, pixel) => this.knows(pixel));
  }

  /** Paints over all pixels whose middle is at most `radius` from a place. */
  cover(x: number, y: number, radius: number): void {
    const { width } = this.size;
    this.over.forEach((_, pixel) => {
      const [right, down] = [(pixel % width) + 0.5 - x, Math.floor(pixel / width) + 0.5 - y];
      if (right * right + down * down <= radius * radius) this.over[pixel] = 1;
    });
  }

  copy(): Occlusion {
    const copied = new Occlusion(this.size);
    copied.rows = this.rows;
    copied.over.set(this.over);
    return copied;
  }

  /** The fields of a request that say it. */
  async fields(): Promise<{ keep_rows: number } | { mask: string }> {
    return this.over.includes(1) ? { mask: await base64(await this.mask()) } : { keep_rows: this.rows };
  }

  private mask(): Promise<Blob> {
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: this.size.width, height: this.size.height });
    const context = canvas.getContext("2d")!;
    this.over.forEach((_, pixel) => {
      if (this.knows(pixel)) context.fillRect(pixel % this.size.width, Math.floor(pixel / this.size.width), 1, 1);
    });
    return png(canvas);
  }
}

export async function base64(blob: Blob): Promise<string> {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}
