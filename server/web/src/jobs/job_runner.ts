// Runs the jobs of one tab, one at a time: its Stop button, its line (#<tab>-says) with figures folded below it
// (#<tab>-meter), its bar (#<tab>-progress) and its status for screen readers (#<tab>-status). A job that is replaced by the
// next one writes nothing more to the page.

import type { FinishedImage, Frame, JobRequest } from "../api/job";
import { runJob } from "../api/websocket";
import { find, onClick, setText } from "../base/elements";
import { redraw } from "../pictures/redraw";
import { showError } from "../base/notice";
import { Meter } from "./meter";

const IN_SIGHT = 0.85; // of the window's height: pictures that begin below that are out of sight

/** What a tab does with the messages of its requests; images of the second follow those of the first. */
export interface JobView {
  frame(frame: Frame): number; // returns how many bytes were painted since the last frame
  image(index: number, finished: FinishedImage): void;
  ended(): void; // also when it was stopped, or has failed
}

export class JobRunner {
  private control: AbortController | undefined; // of the current job

  constructor(private readonly tab: string) {
    onClick(`${tab}-stop`, () => this.control?.abort());
  }

  get isRunning(): boolean {
    return this.control !== undefined;
  }

  /** Scrolls to the progress, with the pictures below it, where they are below the fold or above the window. */
  follow(): void {
    const { top } = this.bar.getBoundingClientRect();
    if (top >= 0 && top < window.innerHeight * IN_SIGHT) return;
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.bar.parentElement!.scrollIntoView({ block: "start", behavior: isStill ? "auto" : "smooth" });
  }

  showStatus(sentence: string): void {
    setText(`${this.tab}-status`, sentence);
  }

  showMeter(line: string): void {
    setText(`${this.tab}-meter`, line);
  }

  private showFigures(meter: Meter): void {
    setText(`${this.tab}-says`, meter.summary);
    this.showMeter(meter.figures);
  }

  /** Shows neither line nor figures. */
  clearFigures(): void {
    setText(`${this.tab}-says`, "");
    this.showMeter("");
  }

  /** Cancels the current job, which is no longer current then. */
  drop(): void {
    this.control?.abort();
    this.setCurrent(undefined);
  }

  /** Runs `job` as the current one; the Stop button aborts its signal. Shows its error, unless it was aborted. */
  async run(job: (signal: AbortSignal, isCurrent: () => boolean) => Promise<void>): Promise<void> {
    this.drop();
    const control = new AbortController();
    const isCurrent = () => this.control === control;
    this.setCurrent(control);
    try {
      await job(control.signal, isCurrent);
    } catch (error) {
      if (!control.signal.aborted) showError(error, this.tab);
    }
    if (isCurrent()) this.setCurrent(undefined);
  }

  /** Runs requests of `n` images each, with `bytes` bytes to paint each, on the server, side by side as one job. */
  runOnServer(requests: JobRequest[], n: number, bytes: number, view: JobView): Promise<void> {
    return this.run(async (signal, isCurrent) => {
      const images = n * requests.length;
      const meter = new Meter(images, bytes * requests.length);
      const line = { draw: () => void (isCurrent() && this.showProgress(meter)) };
      line.draw();
      this.showStatus(`Painting ${images} images.`);
      const listenerFrom = (first: number) => ({
        frame: (frame: Frame) => {
          if (!isCurrent()) return;
          meter.addBytes(view.frame({ ...frame, index: first + frame.index }));
          redraw(line);
        },
        image: (index: number, finished: FinishedImage) => {
          if (!isCurrent()) return;
          meter.addImage(first + index, finished.bitsPerDim);
          redraw(line);
          view.image(first + index, finished);
        },
      });
      let status = "";
      try {
        const jobs = requests.map((request, index) => runJob(request, listenerFrom(index * n), signal));
        const cancelled = (await Promise.all(jobs)).includes(true);
        if (!isCurrent()) return;
        meter.finish();
        status = cancelled ? "Stopped." : `Done. ${meter.summary}.`;
      } finally {
        if (isCurrent()) {
          meter.finish();
          this.showFigures(meter);
          this.showStatus(status);
          view.ended();
        }
      }
    });
  }

  private get bar(): HTMLProgressElement {
    return find(`${this.tab}-progress`, HTMLProgressElement);
  }

  private showProgress(meter: Meter): void {
    this.bar.hidden = false;
    this.bar.value = meter.done;
    this.bar.setAttribute("aria-valuetext", meter.words);
    this.showFigures(meter);
  }

  private setCurrent(control: AbortController | undefined): void {
    this.control = control;
    const stop = find(`${this.tab}-stop`, HTMLButtonElement);
    const hadFocus = stop === document.activeElement && control === undefined;
    stop.hidden = control === undefined;
    if (control === undefined) this.bar.hidden = true;
    // the focus goes to the button that starts the next job, which some forms enable only when this one has ended
    if (hadFocus) setTimeout(() => stop.form!.querySelector<HTMLButtonElement>(".primary")!.focus());
  }
}
