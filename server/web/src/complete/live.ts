// Completions that follow the drawing: four of them, painted again after each stroke, by the server or in this browser.
// The next stroke cancels them, and at most one job is in flight: the next begins when the one before has ended.

import { ApiError, backOff, wait } from "../api/http";
import type { Frame } from "../api/job";
import { runJob } from "../api/websocket";
import { freePool } from "../device/panel";
import { enlarge, find, make, pixelScale, setText } from "../base/elements";
import { randomSeed, type PaintRequest } from "../jobs/paint_form";
import { base64 } from "../pictures/files";
import { Picture, type Size } from "../pictures/picture";
import { redraw } from "../pictures/redraw";
import { isShown } from "../shell/tabs";
import { view } from "../viewer/viewer";
import type { Occlusion } from "../pictures/occlusion";

const COUNT = 4;
const [LARGEST, GAP] = [112, 8]; // CSS pixels
const REST = 0.15; // seconds without a change: a slider makes many
const ATTEMPTS = 5; // as long as the server is busy
const BUSY = ["queue_full", "client_queue_full", "unread_answers", "deadline_unreachable", "too_many_jobs"];

/** What is to be completed, and how. */
export interface LiveDrawing {
  image: Picture;
  occlusion: Occlusion;
  request: PaintRequest;
  label: number; // of the class, as a job of this browser has it
  particles: number;
}

/** The workers, where this browser follows the drawing. */
export const followingPool = (): ReturnType<typeof freePool> => (find("live-device", HTMLInputElement).checked ? freePool() : undefined);

/** One completion: its canvas keeps what was painted before until the next job paints over it. */
class Tile {
  readonly canvas = make("canvas", { width: 1, height: 1 });
  readonly button = make("button", { type: "button", className: "stack", disabled: true }, this.canvas);
  picture: Picture | undefined;

  fit(size: Size, scale: number): void {
    const { width, height } = size;
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    enlarge(this.canvas, scale);
  }

  clear(): void {
    this.picture = undefined;
    this.button.disabled = true;
    this.canvas.width = this.canvas.width; // clears it
  }

  draw(): void {
    if (this.picture) this.canvas.getContext("2d")!.drawImage(this.picture.canvas, 0, 0);
  }
}

export class LiveCompletions {
  private readonly tiles = Array.from({ length: COUNT }, () => new Tile());
  private readonly seed = randomSeed(); // the same for all: what changes is what the drawing changes
  private readonly check = find("live-on", HTMLInputElement);
  private readonly by = find("live-by", HTMLFieldSetElement);
  private control: AbortController | undefined; // of the current job
  private last: Promise<unknown> = Promise.resolve(); // resolved when all jobs have ended
  private shown = ""; // the drawing that is completed

  /** `read` returns the drawing, or undefined while none may be completed; throws what is to be said of a drawing that
   * cannot be completed. */
  constructor(private readonly read: (seed: string) => LiveDrawing | undefined) {
    this.tiles.forEach(({ button }, index) => {
      button.setAttribute("aria-label", `Completion ${index + 1} of the drawing`);
      button.addEventListener("click", () => this.open(index));
    });
    find("live-row", HTMLElement).replaceChildren(...this.tiles.map(({ button }) => button));
    for (const field of [this.check, this.by]) field.addEventListener("change", () => this.follow());
  }

  /** Makes room for pictures of that size, while the tab is shown. */
  fit(size: Size): void {
    if (!isShown("complete")) return;
    const room = Math.min(LARGEST, (find("live", HTMLElement).clientWidth + GAP) / COUNT - GAP);
    for (const tile of this.tiles) tile.fit(size, pixelScale(size.width, room));
  }

  /** Cancels the job; the same drawing is completed again when it is next asked for. */
  stop(): void {
    if (this.control) this.shown = "";
    this.control?.abort();
    this.control = undefined;
  }

  /** Cancels the job, and shows no completions. */
  clear(): void {
    this.stop();
    this.shown = "";
    for (const tile of this.tiles) tile.clear();
  }

  /** Completes the drawing when it has rested for a moment, unless it is the one that is shown. `isDrawn`: a stroke has not
   * ended yet. */
  follow(isDrawn = false): void {
    this.by.hidden = !freePool();
    find("live-row", HTMLElement).hidden = !this.check.checked;
    let drawing;
    try {
      drawing = this.check.checked ? this.read(this.seed) : undefined;
    } catch (error) {
      this.clear();
      return this.say((error as Error).message);
    }
    if (!drawing) {
      this.clear();
      return this.say("");
    }
    const { image, occlusion, request, particles } = drawing;
    const how = [request, particles, !!followingPool()];
    const key = JSON.stringify([String(image.bytes), occlusion.rows, String(occlusion.masked), how]);
    if (key === this.shown && !isDrawn) return;
    this.stop();
    if (isDrawn) return;
    this.shown = key;
    const control = (this.control = new AbortController());
    const { signal } = control;
    const before = this.last;
    this.last = wait(REST, signal)
      .then(() => before)
      .then(() => (signal.aborted ? undefined : this.complete(drawing, signal)))
      .catch((error) => signal.aborted || this.say(error.message))
      .then(() => this.control === control && (this.control = undefined));
  }

  private say(sentence: string): void {
    setText("live-status", sentence);
  }

  /** Paints the completions; again while the server is busy. */
  private async complete(drawing: LiveDrawing, signal: AbortSignal): Promise<void> {
    this.say("");
    for (let failures = 1; ; failures++) {
      try {
        const pool = followingPool();
        await (pool ? this.onDevice(pool, drawing, signal) : this.onServer(drawing, signal));
        if (!signal.aborted) this.say("Four completions of this drawing.");
        return;
      } catch (error) {
        const isBusy = error instanceof ApiError && BUSY.includes(error.code ?? "") && failures < ATTEMPTS;
        if (!isBusy || signal.aborted) throw error;
        this.say(error.message);
        await wait(backOff(failures), signal);
        if (signal.aborted) return;
      }
    }
  }

  private async onServer({ image, occlusion, request, particles }: LiveDrawing, signal: AbortSignal): Promise<void> {
    const fields = { ...request, n: COUNT, image: await base64(image.canvas), ...(await occlusion.fields()), particles };
    if (signal.aborted) return;
    await runJob({ type: "complete", ...fields }, { frame: this.painter(image.size, signal) }, signal);
  }

  private async onDevice(
    pool: NonNullable<ReturnType<typeof freePool>>,
    { image, occlusion, request, label, particles }: LiveDrawing,
    signal: AbortSignal,
  ): Promise<void> {
    const { channels } = image.size;
    const known = Int16Array.from(image.bytes, (byte, at) => (occlusion.isKnown(Math.floor(at / channels)) ? byte : -1));
    const frame = this.painter(image.size, signal);
    signal.addEventListener("abort", () => pool.stop());
    const { seed, temperature, guidance = 1 } = request;
    const labels = Array<number>(COUNT).fill(label);
    const job = { seed: BigInt(seed), first: 0, labels, temperature, guidance, known, particles };
    await pool.paint(job, ({ frames }) => frames.forEach(frame));
  }

  /** What paints the frames of a job. */
  private painter(size: Size, signal: AbortSignal): (frame: Frame) => void {
    const pictures = this.tiles.map(() => new Picture(size));
    return ({ index, first, bytes }) => {
      if (signal.aborted) return;
      const tile = this.tiles[index]!;
      tile.picture = pictures[index]!;
      tile.picture.paint(first, bytes);
      tile.button.disabled = false;
      redraw(tile);
    };
  }

  private open(index: number): void {
    const viewed = this.tiles.map(({ picture, button }, at) => ({
      picture: picture!,
      title: `Completion ${at + 1}`,
      figures: "Painted while you drew",
      model: find("model", HTMLSelectElement).value,
      file: `completion-${at + 1}`,
      opener: button,
    }));
    if (viewed.every(({ picture }) => picture)) view(viewed, index);
  }
}
