// The canvas to draw on and to hide pixels with; it shows the model's input, hidden pixels hatched.

import { find, pixelScale } from "../base/elements";
import { Picture, type Size } from "../pictures/picture";
import { Ink } from "./ink";
import { KeyboardBrush } from "./keyboard_brush";
import { Occlusion } from "../pictures/occlusion";

const CELL = 10; // canvas pixels for one image pixel
const ROOM = 308; // CSS pixels
const STROKE = 2.2; // width in image pixels
const ERASER = 4; // likewise
const INK = 32; // greys from this on are of a stroke
const HIDE_RADIUS = 1.6; // in image pixels
const PACE = 40; // milliseconds from point to point of the stroke that draws itself
// of the canvas: what three or four digits begin with
const STROKE_BY_ITSELF = Array.from({ length: 25 }, (_, step): [number, number] => {
  const angle = Math.PI * (1.05 + step / 20);
  return [0.5 + 0.17 * Math.cos(angle), 0.33 + 0.14 * Math.sin(angle)];
});
const MAX_UNDO = 30; // drawings that are kept

/** A drawing before a change. */
interface Before {
  ink: ImageData;
  masked: Uint8Array;
  isEmpty: boolean;
}

export class DrawingCanvas {
  ink!: Ink; // this and the next two are set by `fit`
  occlusion!: Occlusion;
  image!: Picture; // what the model gets
  isEmpty = true;
  isDemonstrated = false; // what is seen is a stroke that draws itself; the drawing is empty
  private areRowsChosen = false; // the rows to keep; otherwise they are the upper half of the drawing
  private demonstration: ReturnType<typeof setInterval> | undefined; // until that stroke has ended
  private before: Before[] = []; // the last change at the end
  private last: [number, number] | undefined; // the pointer's last point, in image pixels
  private readonly canvas = find("drawing", HTMLCanvasElement);
  private readonly keyboard: KeyboardBrush;

  /** `onChange` is called after each change of the drawing and of what is hidden, and when a stroke ends. */
  constructor(private readonly onChange: () => void) {
    this.keyboard = new KeyboardBrush(this.canvas, this);
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      this.canvas.setPointerCapture(event.pointerId);
      this.canvas.focus({ focusVisible: false } as FocusOptions);
      this.last = this.pointOf(event);
      this.begin();
      this.move(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const coalesced = event.getCoalescedEvents();
      if (this.last) for (const one of coalesced.length ? coalesced : [event]) this.move(one);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      this.canvas.addEventListener(end, () => {
        this.last = undefined;
        this.halve();
        this.show();
      });
    }
    window.addEventListener("resize", () => this.scale());
    const rows = find("rows", HTMLInputElement);
    rows.addEventListener("input", () => {
      this.occlusion.rows = Number(rows.value);
      this.areRowsChosen = true;
      this.show();
    });
  }

  /** Sets the image size of the model; another size clears the canvas. */
  fit(size: Size): void {
    const sides = ["width", "height", "channels"] as const;
    if (sides.every((side) => this.ink?.size[side] === size[side])) return;
    this.endDemonstration();
    this.ink = new Ink(size);
    this.occlusion = new Occlusion(size);
    this.canvas.width = size.width * CELL;
    this.canvas.height = size.height * CELL;
    const rows = find("rows", HTMLInputElement);
    rows.max = String(size.height);
    this.areRowsChosen = false;
    this.before = [];
    this.scale();
    this.change(true);
  }

  /** Draws a stroke by itself, until something is drawn; where motion is unwelcome, none. */
  demonstrate(): void {
    const { width, height, channels } = this.ink.size;
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (!this.isEmpty || this.isDemonstrated || this.canUndo || channels !== 1 || isStill) return;
    this.isDemonstrated = true;
    const points = STROKE_BY_ITSELF.map(([x, y]): [number, number] => [x * width, y * height]);
    let step = 1;
    this.demonstration = setInterval(() => {
      this.ink.stroke(points[step - 1]!, points[step]!, STROKE, "#fff");
      step++;
      this.image = this.ink.picture();
      if (step === points.length) {
        this.endStroke();
        this.halve();
      }
      this.show();
    }, PACE);
  }

  private endStroke(): void {
    clearInterval(this.demonstration);
    this.demonstration = undefined;
  }

  /** Takes the stroke that draws itself away. */
  private endDemonstration(): void {
    if (!this.isDemonstrated) return;
    this.endStroke();
    this.isDemonstrated = false;
    this.ink.clear();
  }

  clear(): void {
    this.begin();
    this.ink.clear();
    this.areRowsChosen = false;
    this.change(true);
  }

  /** Replaces the drawing by an image of any size. Returns what this changed of the image, in words. */
  load(image: CanvasImageSource, width: number, height: number): string {
    this.begin();
    const changes = this.ink.load(image, width, height);
    this.change();
    return changes;
  }

  /** Replaces the drawing and what is hidden of it. */
  restore(image: Picture, occlusion: Occlusion): void {
    this.occlusion = occlusion;
    this.areRowsChosen = true;
    this.load(image.canvas, image.size.width, image.size.height);
  }

  invert(): void {
    this.begin();
    this.ink.invert();
    this.change();
  }

  /** Unhides the pixels that were hidden with the brush. */
  uncover(): void {
    this.begin();
    this.occlusion.masked.fill(0);
    this.show();
  }

  /** Whether a stroke has not ended yet. */
  get isDrawn(): boolean {
    return this.last !== undefined || this.keyboard.isDown || this.demonstration !== undefined;
  }

  get canUndo(): boolean {
    return this.before.length > 0;
  }

  /** Takes the last change of the drawing back. */
  undo(): void {
    const before = this.before.pop();
    if (!before) return;
    this.ink.pixels = before.ink;
    this.occlusion.masked.set(before.masked);
    this.change(before.isEmpty);
  }

  /** Keeps the drawing for `undo`. */
  begin(): void {
    this.endDemonstration();
    this.before.push({ ink: this.ink.pixels, masked: this.occlusion.masked.slice(), isEmpty: this.isEmpty });
    if (this.before.length > MAX_UNDO) this.before.shift();
  }

  private change(isEmpty = false): void {
    this.isEmpty = isEmpty;
    const { size } = this.ink;
    const black = () => Picture.of(size, new Uint8Array(size.width * size.height * size.channels));
    this.image = isEmpty ? black() : this.ink.picture(); // which takes milliseconds while the page loads
    if (find("erase", HTMLInputElement).checked) this.isEmpty = !this.image.bytes.some(Boolean);
    if (!this.isDrawn) this.halve();
    this.show();
  }

  /** Keeps the upper half of the drawing, however small it is and wherever it stands: a model that is shown a whole small
   * digit paints a second one below. Of an empty canvas half of the rows. */
  private halve(): void {
    if (this.areRowsChosen) return;
    const { width, height, channels } = this.ink.size;
    const rowOf = (at: number) => Math.floor(at / channels / width);
    const first = this.image.bytes.findIndex((byte) => byte >= INK);
    const last = this.image.bytes.findLastIndex((byte) => byte >= INK);
    this.occlusion.rows = Math.floor((first < 0 ? height : rowOf(first) + rowOf(last) + 1) / 2);
  }

  /** Draws or hides from the pointer's last point to that of the event. */
  private move(event: PointerEvent): void {
    const point = this.pointOf(event);
    this.apply(this.last!, point);
    this.last = point;
  }

  /** Draws or hides from one point to another, in image pixels. */
  apply(from: [number, number], to: [number, number]): void {
    if (find("hide", HTMLInputElement).checked) {
      this.occlusion.hide(...to, HIDE_RADIUS);
      this.show();
    } else {
      const colour = this.ink.size.channels === 1 ? "#fff" : find("colour", HTMLInputElement).value;
      if (find("erase", HTMLInputElement).checked) this.ink.stroke(from, to, ERASER, "#000");
      else this.ink.stroke(from, to, STROKE, colour);
      this.change();
    }
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

  show(): void {
    const context = this.canvas.getContext("2d")!;
    const { width, height } = this.ink.size;
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image.canvas, 0, 0, this.canvas.width, this.canvas.height);
    this.occlusion.masked.forEach((_, pixel) => {
      if (!this.occlusion.isKnown(pixel)) hatch(context, pixel % width, Math.floor(pixel / width));
    });
    const { rows } = this.occlusion;
    find("rows", HTMLInputElement).value = String(rows);
    find("rows-shown", HTMLOutputElement).value = rows === height ? "all" : String(rows);
    find("drawing-hint", HTMLElement).hidden = !this.isEmpty;
    if (this.keyboard.point) frame(context, ...this.keyboard.point);
    this.onChange();
  }
}

/** Frames the image pixel that the keyboard's brush is on, visible on black and on white. */
function frame(context: CanvasRenderingContext2D, x: number, y: number): void {
  for (const [colour, width] of [["#000", 4], ["#fff", 2]] as const) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(x * CELL, y * CELL, CELL, CELL);
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
