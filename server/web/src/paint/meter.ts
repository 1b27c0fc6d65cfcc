// The running line: how fast it paints, how long the first pixel took, what the images cost.

export class Meter {
  private readonly began = performance.now();
  private firstPixel: number | undefined;
  private bytes = 0;
  private readonly bits = new Map<number, number>(); // of each image that is done
  private ended: number | undefined;

  constructor(
    private readonly images: number,
    private readonly total: number,
  ) {}

  painted(bytes: number): void {
    this.firstPixel ??= performance.now();
    this.bytes += bytes;
  }

  /** One image is done; its bits/dim, null where its known bytes rule it out. */
  done(index: number, bitsPerDim: number | null): void {
    this.bits.set(index, bitsPerDim ?? Infinity);
  }

  end(): void {
    this.ended ??= performance.now();
  }

  get line(): string {
    const seconds = ((this.ended ?? performance.now()) - this.began) / 1000;
    const told = [`${this.bits.size} of ${this.images} images`];
    if (this.firstPixel === undefined) return `${told[0]} · waiting for the first pixel`;
    told.push(`first pixel after ${milliseconds(this.firstPixel - this.began)}`);
    told.push(`${rate((this.bytes / this.total) * (this.images / seconds))} images/s`);
    told.push(`${rate(this.bytes / seconds)} bytes/s`);
    const finite = [...this.bits.values()].filter(Number.isFinite);
    if (finite.length) told.push(`${mean(finite).toFixed(3)} bits/dim`);
    if (this.ended !== undefined) told.push(`${seconds.toFixed(seconds < 10 ? 1 : 0)} s`);
    return told.join(" · ");
  }
}

const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const milliseconds = (value: number): string =>
  value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
const rate = (value: number): string =>
  value.toLocaleString("en", value < 100 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 0 });
