// The progress line of a job: throughput, time to the first pixel, bits/dim of the finished images.

export class Meter {
  private readonly start = performance.now();
  private firstPixel: number | undefined;
  private end: number | undefined;
  private bytes = 0;
  private readonly bits = new Map<number, number>(); // bits/dim of each finished image, by index

  constructor(
    private readonly images: number,
    private readonly total: number, // bytes to paint
  ) {}

  addBytes(bytes: number): void {
    if (!bytes) return;
    this.firstPixel ??= performance.now();
    this.bytes += bytes;
  }

  /** Counts a finished image; `bitsPerDim` is null if its given bytes have probability 0 under the model. */
  addImage(index: number, bitsPerDim: number | null): void {
    this.bits.set(index, bitsPerDim ?? Infinity);
  }

  finish(): void {
    this.end ??= performance.now();
  }

  get line(): string {
    const seconds = ((this.end ?? performance.now()) - this.start) / 1000;
    const parts = [`${this.bits.size} of ${this.images} images`];
    if (this.firstPixel === undefined) return `${parts[0]} · waiting for the first pixel`;
    parts.push(`first pixel after ${milliseconds(this.firstPixel - this.start)}`);
    parts.push(`${rate((this.bytes / this.total) * (this.images / seconds))} images/s`);
    parts.push(`${rate(this.bytes / seconds)} bytes/s`);
    const finite = [...this.bits.values()].filter(Number.isFinite);
    if (finite.length) parts.push(`${mean(finite).toFixed(3)} bits/dim`);
    if (this.end !== undefined) parts.push(`${seconds.toFixed(seconds < 10 ? 1 : 0)} s`);
    return parts.join(" · ");
  }
}

const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const milliseconds = (value: number): string =>
  value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
const rate = (value: number): string =>
  value.toLocaleString("en", value < 100 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 0 });
