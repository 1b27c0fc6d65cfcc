// What the model takes the drawing for: a bar for each class, asked for again after each change of the drawing, of the server or
// of this browser. The next change cancels the question before. Hidden where the model has no classes.

import { callOnce, wait } from "../api/http";
import type { Model } from "../api/models";
import { find, make, setText } from "../base/elements";
import { classification } from "../device/classification";
import { base64 } from "../pictures/files";
import type { Picture } from "../pictures/picture";
import { percent, UNKNOWN, type ClassifiedImage } from "../viewer/what_is_it";
import { followingPool } from "./live";

const BARS = 10;
const REST = 0.1; // seconds without a change: a stroke makes many

export class Reading {
  private model: Model | undefined;
  private control: AbortController | undefined; // of the question that is not answered yet
  private last: Promise<unknown> = Promise.resolve(); // resolved when all questions have been answered
  private shown = ""; // the picture that is read

  /** Takes another model, of which nothing is read yet. */
  fit(model: Model): void {
    this.model = model;
    find("reading", HTMLElement).hidden = !model.classes.length;
    this.clear();
  }

  /** Reads the picture once it has rested for a moment, unless it is the one that is read. Without one, nothing is. */
  follow(picture: Picture | undefined): void {
    const { model } = this;
    if (!model?.classes.length) return;
    if (!picture) return this.clear();
    const key = String(picture.bytes);
    if (key === this.shown) return;
    this.shown = key;
    this.control?.abort();
    const control = (this.control = new AbortController());
    const { signal } = control;
    const before = this.last;
    this.last = (async () => {
      try {
        await wait(REST, signal);
        await before;
        signal.throwIfAborted();
        const image = await this.read(picture, model, signal);
        if (!signal.aborted) this.show(image);
      } catch (error) {
        if (signal.aborted) return;
        this.shown = "";
        setText("reading-says", (error as Error).message);
      }
    })();
  }

  private async read(picture: Picture, model: Model, signal: AbortSignal): Promise<ClassifiedImage> {
    const pool = followingPool();
    if (pool?.model.reading) return classification(pool, model.classes, picture.bytes);
    const fields = { model: model.id, image: await base64(picture.canvas) };
    const { data } = await (await callOnce("v1/images/classifications", fields, undefined, signal)).json();
    return data[0];
  }

  private clear(): void {
    this.control?.abort();
    this.shown = "";
    this.draw((this.model?.classes ?? []).map((name) => [name, 0]));
    setText("reading-says", "What you draw is read after each stroke.");
  }

  private show(image: ClassifiedImage): void {
    if (image.class === null) {
      this.draw(this.model!.classes.map((name) => [name, 0]));
      return setText("reading-says", UNKNOWN);
    }
    const classes = Object.entries(image.posterior);
    const sorted = [...classes].sort((a, b) => b[1] - a[1]);
    this.draw(classes.length > BARS ? sorted : classes);
    const [name, probability] = sorted[0]!;
    setText("reading-says", `Read as ${name}, ${percent(probability)}.`);
  }

  private draw(classes: [name: string, probability: number][]): void {
    find("reading-bars", HTMLElement).replaceChildren(
      ...classes.slice(0, BARS).map(([name, probability]) => {
        const bar = make("i");
        bar.style.height = `${100 * probability}%`;
        const text = make("span", { className: "visually-hidden" }, ` ${percent(probability)}`);
        return make("li", {}, make("span", { className: "rail" }, bar), make("span", {}, name), text);
      }),
    );
  }
}
