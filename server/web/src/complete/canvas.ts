// The canvas to draw on and to hide pixels with; it shows the model's input, hidden pixels hatched.

import { find, pixelScale } from "../elements";
import type { Picture, Size } from "../pictures/picture";
import { Ink } from "./ink";
import { Occlusion } from "./occlusion";

const CELL = 10; // canvas pixels for one image pixel
const ROOM = 308; // CSS pixels
const STROKE = 2.2; // width in image pixels
const HIDE_RADIUS = 1.6; // in image pixels

export class DrawingCanvas {
  ink!: Ink; // this and the next two are set by `fit`
  occlusion!: Occlusion;
  image!: Picture; // what the model gets
  private isEmpty = true;
  private last: [number, number] | undefined; // the pointer's last point, in image pixels
  private readonly canvas = find("drawing", HTMLCanvasElement);

  /** `onOcclusion` is called after each change of what is hidden. */
  constructor(private readonly onOcclusion: (occlusion: Occlusion) => void) {
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      this.canvas.setPointerCapture(event.pointerId);
      this.last = this.pointOf(event);
      this.apply(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const coalesced = event.getCoalescedEvents();
      if (this.last) for (const one of coalesced.length ? coalesced : [event]) this.apply(one);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      this.canvas.addEventListener(end, () => (this.last = undefined));
    }
    window.addEventListener("resize", () => this.scale());
    const rows = find("rows", HTMLInputElement);
    rows.addEventListener("input", () => {
      this.occlusion.rows = Number(rows.value);
      this.show();
    });
  }

  /** Sets the image size of the model; another size clears the canvas. */
  fit(size: Size): void {
    const sides = ["width", "height", "channels"] as const;
    if (sides.every((side) => this.ink?.size[side] === size[side])) return;
    this.ink = new Ink(size);
    this.occlusion = new Occlusion(size);
    this.canvas.width = size.width * CELL;
    this.canvas.height = size.height * CELL;
    const rows = find("rows", HTMLInputElement);
    rows.max = String(size.height);
    rows.value = String(this.occlusion.rows);
    this.scale();
    this.clear();
  }

  clear(): void {
    this.ink.clear();
    this.change(true);
  }

  /** Replaces the drawing by an image of any size. */
  load(image: CanvasImageSource, width: number, height: number): void {
    this.ink.load(image, width, height);
    this.change();
  }

  invert(): void {
    this.ink.invert();
    this.change();
  }

  /** Unhides the pixels that were hidden with the brush. */
  uncover(): void {
    this.occlusion.masked.fill(0);
    this.show();
  }

  private change(isEmpty = false): void {
    this.isEmpty = isEmpty;
    this.image = this.ink.picture();
    this.show();
  }

  /** Draws or hides from the last point to that of the event. */
  private apply(event: PointerEvent): void {
    const point = this.pointOf(event);
    if (find("hide", HTMLInputElement).checked) {
      this.occlusion.hide(...point, HIDE_RADIUS);
      this.show();
    } else {
      const colour = this.ink.size.channels === 1 ? "#fff" : find("colour", HTMLInputElement).value;
      this.ink.stroke(this.last!, point, STROKE, colour);
      this.change();
    }
    this.last = point;
  }

  private pointOf(event: PointerEvent): [number, number] {
    const box = this.canvas.getBoundingClientRect();
    const { width, height } = this.ink.size;
    return [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
  }

  private scale(): void {
    if (!this.ink) return;
    const scale = pixelScale(this.ink.size.width, Math.min(ROOM, window.innerWidth - 48));
    this.canvas.style.width = `${this.ink.size.width * scale}px`;
    this.canvas.style.height = `${this.ink.size.height * scale}px`;
  }

  private show(): void {
    const context = this.canvas.getContext("2d")!;
    const { width, height } = this.ink.size;
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image.canvas, 0, 0, this.canvas.width, this.canvas.height);
    this.occlusion.masked.forEach((_, pixel) => {
      if (!this.occlusion.isKnown(pixel)) hatch(context, pixel % width, Math.floor(pixel / width));
    });
    const { rows } = this.occlusion;
    find("rows-shown", HTMLOutputElement).value = rows === height ? "all" : String(rows);
    find("drawing-hint", HTMLElement).hidden = !this.isEmpty;
    this.onOcclusion(this.occlusion);
  }
}

/** Dims one image pixel and draws a diagonal across it. */
function hatch(context: CanvasRenderingContext2D, x: number, y: number): void {
  context.fillStyle = "rgb(92 96 104 / 72%)";
  context.fillRect(x * CELL, y * CELL, CELL, CELL);
  context.strokeStyle = "rgb(255 255 255 / 30%)";
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x * CELL, (y + 1) * CELL);
  context.lineTo((x + 1) * CELL, y * CELL);
  context.stroke();
}
