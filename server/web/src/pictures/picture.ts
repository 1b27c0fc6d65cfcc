// An image that is being painted, and the canvas that shows it: a pixel appears once all its bytes are there.

export interface Size {
  width: number;
  height: number;
  channels: number;
}

export class Picture {
  readonly canvas = document.createElement("canvas");
  readonly bytes: Uint8Array;
  painted = 0; // bytes, from the front
  private readonly context: CanvasRenderingContext2D;
  private readonly pixels: ImageData;
  private shown = 0; // pixels
  private waiting = false;

  constructor(readonly size: Size) {
    const { width, height, channels } = size;
    this.bytes = new Uint8Array(width * height * channels);
    this.canvas.width = width;
    this.canvas.height = height;
    this.context = this.canvas.getContext("2d")!;
    this.pixels = this.context.createImageData(width, height);
  }

  static of(size: Size, bytes: Uint8Array): Picture {
    const picture = new Picture(size);
    picture.paint(0, bytes);
    picture.show();
    return picture;
  }

  /** Another picture with the same bytes, of which only the pixels that `shows` are seen. */
  copy(shows: (pixel: number) => boolean): Picture {
    const copied = Picture.of(this.size, this.bytes);
    for (let pixel = 0; pixel < this.size.width * this.size.height; pixel++) {
      if (!shows(pixel)) copied.pixels.data[4 * pixel + 3] = 0;
    }
    copied.show();
    return copied;
  }

  get done(): boolean {
    return this.painted === this.bytes.length;
  }

  /** Takes bytes that begin at `first`; the screen follows with its next frame. */
  paint(first: number, bytes: Uint8Array): void {
    this.bytes.set(bytes, first);
    this.painted = Math.max(this.painted, first + bytes.length);
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => this.show());
  }

  /** Brings the canvas up to what is painted, now. */
  show(): void {
    this.waiting = false;
    const { channels } = this.size;
    const until = Math.floor(this.painted / channels);
    for (; this.shown < until; this.shown++) {
      for (let channel = 0; channel < 3; channel++) {
        const from = this.shown * channels + (channels === 3 ? channel : 0);
        this.pixels.data[4 * this.shown + channel] = this.bytes[from]!;
      }
      this.pixels.data[4 * this.shown + 3] = 255;
    }
    this.context.putImageData(this.pixels, 0, 0);
  }
}
