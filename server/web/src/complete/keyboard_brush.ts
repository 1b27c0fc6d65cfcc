// The brush by keyboard: arrow keys move it pixel by pixel, the space bar lowers and lifts it, Escape lifts it.

import { setText } from "../base/elements";
import type { Size } from "../pictures/picture";

type Point = [number, number]; // in image pixels

const STEPS: Record<string, Point> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** What the brush draws on. */
interface Drawing {
  ink: { size: Size };
  begin(): void;
  apply(from: Point, to: Point): void;
  show(): void;
}

export class KeyboardBrush {
  point: Point | undefined; // the pixel, from 0; undefined until a key is pressed, and without the focus
  isDown = false;

  constructor(
    element: HTMLElement,
    private readonly drawing: Drawing,
  ) {
    element.addEventListener("keydown", (event) => this.press(event));
    element.addEventListener("blur", () => {
      this.isDown = false;
      this.point = undefined;
      drawing.show();
    });
  }

  private press(event: KeyboardEvent): void {
    const step = STEPS[event.key];
    const { size } = this.drawing.ink;
    if ((!step && event.key !== " " && event.key !== "Escape") || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const from = this.point ?? [Math.floor(size.width / 2), Math.floor(size.height / 4)];
    const to: Point = [...from];
    if (step && this.point) {
      to[0] = Math.max(0, Math.min(size.width - 1, from[0] + step[0]));
      to[1] = Math.max(0, Math.min(size.height - 1, from[1] + step[1]));
    }
    this.point = to;
    if (event.key === "Escape") this.isDown = false;
    if (event.key === " ") {
      this.isDown = !this.isDown;
      if (this.isDown) this.drawing.begin();
    }
    if (this.isDown) this.drawing.apply(centre(from), centre(to));
    this.drawing.show();
    setText("complete-status", `Row ${to[1] + 1}, column ${to[0] + 1}, brush ${this.isDown ? "down" : "up"}.`);
  }
}

const centre = ([x, y]: Point): Point => [x + 0.5, y + 0.5];
