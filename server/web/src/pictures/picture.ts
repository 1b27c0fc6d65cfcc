// An image that is being painted, and its canvas: a pixel is shown once all its bytes are painted.

export interface Size {
  width: number;
  height: number;
  channels: number;
}

export class Picture {
  readonly canvas = document.createElement("canvas");
  readonly bytes: Uint8Array;
  painted = 0; // bytes, from the first on
  private readonly context: CanvasRenderingContext2D;
  private readonly pixels: ImageData;
  private shown = 0; // pixels
  private isScheduled = false;

  constructor(readonly size: Size) {
    const { width, height, channels } = size;
    this.bytes = new Uint8Array(width * height * channels);
    this.canvas.width = width;
    this.canvas.height = height;
    this.context = this.canvas.getContext("2d")!;
    this.pixels = this.context.createImageData(width, height);
  }

  /** A finished picture. */
  static of(size: Size, bytes: Uint8Array): Picture {
    const picture = new Picture(size);
    picture.paint(0, bytes);
    picture.show();
    return picture;
  }

  /** A copy in which the pixels for which `isVisible` is false are transparent. */
  copy(isVisible: (pixel: number) => boolean): Picture {
    const copy = Picture.of(this.size, this.bytes);
    for (let pixel = 0; pixel < this.size.width * this.size.height; pixel++) {
      if (!isVisible(pixel)) copy.pixels.data[4 * pixel + 3] = 0;
    }
    copy.show();
    return copy;
  }

  get done(): boolean {
    return this.painted === this.bytes.length;
  }

  /** Writes bytes from position `first` on, drawn with the next frame of the screen; returns how many are new. */
  paint(first: number, bytes: Uint8Array): number {
    this.bytes.set(bytes, first);
    const added = Math.max(0, first + bytes.length - this.painted);
    this.painted += added;
    if (!this.isScheduled) requestAnimationFrame(() => this.show());
    this.isScheduled = true;
    return added;
  }

  /** Draws all painted pixels now. */
  show(): void {
    this.isScheduled = false;
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
