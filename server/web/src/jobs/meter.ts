// The progress of a job: how much is painted and the time left, then throughput, time to the first pixel, bits/dim.

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

  /** The part that is painted, from 0 to 1. */
  get done(): number {
    return this.bytes / this.total;
  }

  /** What screen readers say of the progress bar. */
  get words(): string {
    const left = this.secondsLeft;
    return `${Math.floor(100 * this.done)} %${left === undefined ? "" : `, about ${inWords(left)} left`}`;
  }

  get line(): string {
    const seconds = (this.end ?? performance.now()) - this.start;
    if (this.end === undefined) {
      if (this.firstPixel === undefined) return `${count(this.images)} · waiting for the first pixel`;
      return `${count(this.images)} · ${this.words} · ${this.pace(seconds / 1000)}`;
    }
    return [`${this.bits.size} of ${count(this.images)}`, ...this.figures(seconds / 1000)].join(" · ");
  }

  private figures(seconds: number): string[] {
    if (this.firstPixel === undefined) return [];
    const parts = [`first pixel after ${milliseconds(this.firstPixel - this.start)}`, this.pace(seconds)];
    parts.push(`${rate(this.bytes / seconds)} bytes/s`);
    const finite = [...this.bits.values()].filter(Number.isFinite);
    if (finite.length) parts.push(`${mean(finite).toFixed(3)} bits/dim`);
    return [...parts, `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`];
  }

  private pace(seconds: number): string {
    return `${rate((this.done * this.images) / seconds)} images/s`;
  }

  /** At the pace since the first pixel; undefined before that is known. */
  private get secondsLeft(): number | undefined {
    if (this.firstPixel === undefined || this.done < 0.02) return undefined;
    return ((performance.now() - this.firstPixel) / 1000) * (1 / this.done - 1);
  }
}

/** A number of seconds, as one says it. */
function inWords(seconds: number): string {
  if (seconds >= 90) return `${Math.round(seconds / 60)} minutes`;
  const whole = Math.max(1, Math.round(seconds));
  return whole === 1 ? "1 second" : `${whole} seconds`;
}

const count = (images: number): string => `${images} images`;
const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const milliseconds = (value: number): string =>
  value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
const rate = (value: number): string =>
  value.toLocaleString("en", value < 100 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 0 });
