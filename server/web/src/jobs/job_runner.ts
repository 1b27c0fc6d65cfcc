// Runs the jobs of one tab, one at a time: its Stop button, its progress line (#<tab>-meter) and its status for screen
// readers (#<tab>-status). A job that is replaced by the next one writes nothing more to the page.

import { runJob, type Frame, type JobRequest, type Started } from "../api/websocket";
import { find, onClick, setText } from "../elements";
import { redraw } from "../pictures/redraw";
import { showError } from "../shell/notice";
import { Meter } from "./meter";

/** What a tab does with a job's messages. */
export interface JobView {
  started?(started: Started): void;
  frame(frame: Frame): number; // returns how many bytes were painted since the last frame
  image(index: number, bitsPerDim: number | null): void;
  ended(cancelled: boolean): void;
}

export class JobRunner {
  private control: AbortController | undefined; // of the current job

  constructor(private readonly tab: string) {
    onClick(`${tab}-stop`, () => this.control?.abort());
  }

  get isRunning(): boolean {
    return this.control !== undefined;
  }

  showStatus(sentence: string): void {
    setText(`${this.tab}-status`, sentence);
  }

  showMeter(line: string): void {
    setText(`${this.tab}-meter`, line);
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
      if (!control.signal.aborted) showError(error);
    }
    if (isCurrent()) this.setCurrent(undefined);
  }

  /** Runs a job of `images` images with `bytes` bytes to paint on the server. */
  runOnServer(request: JobRequest, images: number, bytes: number, view: JobView): Promise<void> {
    return this.run(async (signal, isCurrent) => {
      const meter = new Meter(images, bytes);
      const line = { draw: () => void (isCurrent() && this.showMeter(meter.line)) };
      line.draw();
      this.showStatus(`Painting ${images} images.`);
      const listener = {
        started: (started: Started) => isCurrent() && view.started?.(started),
        frame: (frame: Frame) => {
          if (!isCurrent()) return;
          meter.addBytes(view.frame(frame));
          redraw(line);
        },
        image: (index: number, bitsPerDim: number | null) => {
          if (!isCurrent()) return;
          meter.addImage(index, bitsPerDim);
          redraw(line);
          view.image(index, bitsPerDim);
        },
      };
      let status = "";
      try {
        const cancelled = await runJob(request, listener, signal);
        if (!isCurrent()) return;
        meter.finish();
        status = cancelled ? "Stopped." : `Done. ${meter.line}`;
        view.ended(cancelled);
      } finally {
        if (isCurrent()) {
          meter.finish();
          this.showMeter(meter.line);
          this.showStatus(status);
        }
      }
    });
  }

  private setCurrent(control: AbortController | undefined): void {
    this.control = control;
    find(`${this.tab}-stop`, HTMLButtonElement).hidden = control === undefined;
  }
}
