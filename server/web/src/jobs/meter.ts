// The progress of a job: how much is painted and the time left, then how long it took, with throughput, time to the first
// pixel and bits/dim as its figures.

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

  get summary(): string {
    const { end, images } = this;
    if (end !== undefined) {
      const painted = this.bits.size < images ? `${this.bits.size} of ${count(images)}` : count(images);
      return `${painted} in ${seconds(end - this.start)}`;
    }
    return `${count(images)} · ${this.firstPixel === undefined ? "waiting for the first pixel" : this.words}`;
  }

  /** Empty until the job has ended. */
  get figures(): string {
    if (this.end === undefined) return "";
    const parts = [`${this.bits.size} of ${count(this.images)}`];
    if (this.firstPixel === undefined) return parts[0]!;
    const took = this.end - this.start;
    parts.push(`first pixel after ${milliseconds(this.firstPixel - this.start)}`);
    parts.push(`${rate((1000 * this.done * this.images) / took)} images/s`, `${rate((1000 * this.bytes) / took)} bytes/s`);
    const finite = [...this.bits.values()].filter(Number.isFinite);
    if (finite.length) parts.push(`${mean(finite).toFixed(3)} bits/dim`);
    return [...parts, seconds(took)].join(" · ");
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

const count = (images: number): string => `${images} ${images === 1 ? "image" : "images"}`;
const seconds = (ms: number): string => `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
const milliseconds = (value: number): string =>
  value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
const rate = (value: number): string =>
  value.toLocaleString("en", value < 100 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 0 });
