// An image that is being painted. Its canvas is made when it is first asked for; from then on it follows the bytes. A
// pixel is shown once all its bytes are painted.

import { redraw } from "./redraw";

export interface Size {
  width: number;
  height: number;
  channels: number;
}

/** A part of a picture, in its pixels: from `left` and `top` to before `right` and `bottom`. */
export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

const OPAQUE = 255 << 24; // alpha: a pixel is a little endian number, as every browser stores it

interface Surface {
  canvas: HTMLCanvasElement;
  context: CanvasRenderingContext2D;
  pixels: ImageData;
  shown: number; // pixels
}

export class Picture {
  readonly bytes: Uint8Array;
  painted = 0; // bytes, from the first on
  private surface: Surface | undefined;

  constructor(readonly size: Size) {
    this.bytes = new Uint8Array(size.width * size.height * size.channels);
  }

  /** A finished picture. */
  static of(size: Size, bytes: Uint8Array): Picture {
    const picture = new Picture(size);
    picture.paint(0, bytes);
    return picture;
  }

  /** A copy in which the pixels for which `isVisible` is false are transparent. */
  copy(isVisible: (pixel: number) => boolean): Picture {
    const copy = Picture.of(this.size, this.bytes);
    const { context, pixels } = copy.drawn();
    for (let pixel = 0; pixel < this.size.width * this.size.height; pixel++) {
      if (!isVisible(pixel)) pixels.data[4 * pixel + 3] = 0;
    }
    context.putImageData(pixels, 0, 0);
    return copy;
  }

  /** The canvas, with all pixels that are painted now. */
  get canvas(): HTMLCanvasElement {
    return this.drawn().canvas;
  }

  get done(): boolean {
    return this.painted === this.bytes.length;
  }

  /** The number of pixels all of whose bytes are painted. */
  get pixels(): number {
    return Math.floor(this.painted / this.size.channels);
  }

  /** All of it. */
  get box(): Box {
    return { left: 0, top: 0, right: this.size.width, bottom: this.size.height };
  }

  /** Writes bytes from position `first` on; its canvas, if there is one, is redrawn. Returns how many bytes are new. */
  paint(first: number, bytes: Uint8Array): number {
    this.bytes.set(bytes, first);
    const added = Math.max(0, first + bytes.length - this.painted);
    this.painted += added;
    if (this.surface) redraw(this);
    return added;
  }

  /** Draws all painted pixels on its canvas. */
  draw(): void {
    this.drawn();
  }

  /** Writes the pixels from `first` up to `end` as RGBA into `target`, where rows are `stride` pixels apart and the
   * picture's first pixel is at `origin`; only those in the box `seen`. */
  write(target: Uint32Array, first: number, end: number, stride = this.size.width, origin = 0, seen = this.box): void {
    const { bytes } = this;
    const { width, channels } = this.size;
    const next = channels === 3 ? 1 : 0; // from one colour to the next: a grey pixel has one byte for all three
    for (let pixel = first; pixel < end; pixel++) {
      const row = Math.floor(pixel / width);
      const column = pixel - row * width;
      if (column < seen.left || column >= seen.right || row < seen.top || row >= seen.bottom) continue;
      const at = pixel * channels;
      const [red, green, blue] = [bytes[at]!, bytes[at + next]!, bytes[at + 2 * next]!];
      target[origin + row * stride + column] = OPAQUE | (blue << 16) | (green << 8) | red;
    }
  }

  private drawn(): Surface {
    const surface = (this.surface ??= this.makeSurface());
    if (surface.shown < this.pixels) {
      this.write(new Uint32Array(surface.pixels.data.buffer), surface.shown, this.pixels);
      surface.shown = this.pixels;
      surface.context.putImageData(surface.pixels, 0, 0);
    }
    return surface;
  }

  private makeSurface(): Surface {
    const { width, height } = this.size;
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d")!;
    return { canvas, context, pixels: context.createImageData(width, height), shown: 0 };
  }
}
