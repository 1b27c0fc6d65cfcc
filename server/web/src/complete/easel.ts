// The square to draw on and to paint over; it shows what the model will see, hidden pixels hatched.

import { find } from "../elements";
import type { Picture, Size } from "../pictures/picture";
import { crisp } from "../pictures/scale";
import { Ink } from "./ink";
import { Occlusion } from "./occlusion";

const CELL = 10; // of the canvas, for a pixel of the picture
const ROOM = 308;
const BRUSH = 2.2; // pixels of the picture
const HIDING = 1.6; // likewise, a radius

export class Easel {
  ink!: Ink; // these three are there once a size is given
  occlusion!: Occlusion;
  private picture!: Picture;
  private drawn = false; // or filled with a picture
  private last: [number, number] | undefined; // where the pointer was, in pixels of the picture
  private readonly canvas = find("easel", HTMLCanvasElement);

  constructor() {
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      this.canvas.setPointerCapture(event.pointerId);
      this.last = this.place(event);
      this.touch(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      const among = event.getCoalescedEvents();
      if (this.last) for (const one of among.length ? among : [event]) this.touch(one);
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

  /** The picture as the model will see it. */
  get seen(): Picture {
    return this.picture;
  }

  /** Begins anew where pictures have another size now. */
  fit(size: Size): void {
    const sides = (["width", "height", "channels"] as const).map((side) => this.ink?.size[side] === size[side]);
    if (!sides.includes(false)) return;
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
    this.change(false);
  }

  take(image: CanvasImageSource, width: number, height: number): void {
    this.ink.take(image, width, height);
    this.change();
  }

  invert(): void {
    this.ink.invert();
    this.change();
  }

  /** Only the rows below the line are hidden again. */
  uncover(): void {
    this.occlusion.over.fill(0);
    this.show();
  }

  private change(drawn = true): void {
    this.drawn = drawn;
    this.picture = this.ink.picture();
    this.show();
  }

  private touch(event: PointerEvent): void {
    const place = this.place(event);
    if (find("hide", HTMLInputElement).checked) {
      this.occlusion.cover(...place, HIDING);
      this.show();
    } else {
      const colour = this.ink.size.channels === 1 ? "#fff" : find("colour", HTMLInputElement).value;
      this.ink.stroke(this.last!, place, BRUSH, colour);
      this.change();
    }
    this.last = place;
  }

  private place(event: PointerEvent): [number, number] {
    const box = this.canvas.getBoundingClientRect();
    const { width, height } = this.ink.size;
    return [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
  }

  private scale(): void {
    if (!this.ink) return;
    const scale = crisp(this.ink.size.width, Math.min(ROOM, window.innerWidth - 48));
    this.canvas.style.width = `${this.ink.size.width * scale}px`;
    this.canvas.style.height = `${this.ink.size.height * scale}px`;
  }

  private show(): void {
    const context = this.canvas.getContext("2d")!;
    const { width, height } = this.ink.size;
    this.picture.show();
    context.imageSmoothingEnabled = false;
    context.drawImage(this.picture.canvas, 0, 0, this.canvas.width, this.canvas.height);
    this.occlusion.over.forEach((_, pixel) => {
      if (!this.occlusion.knows(pixel)) hatch(context, pixel % width, Math.floor(pixel / width));
    });
    const { rows } = this.occlusion;
    find("rows-shown", HTMLOutputElement).value = rows === height ? "all" : String(rows);
    find("easel-hint", HTMLElement).hidden = this.drawn;
  }
}

/** One pixel of the picture, dimmed and crossed by a line. */
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
