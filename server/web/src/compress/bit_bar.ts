// A code as squares, one for each bit, in lines. A click or the space bar flips one; those that are read are covered.

import { find } from "../base/elements";

const SVG = "http://www.w3.org/2000/svg";
const LAYERS = ["zeros", "ones", "read", "flipped", "cursor"] as const; // from back to front
const SIZES = [11, 8, 6, 5, 4]; // CSS pixels of a bit; the first with which all of them fit into the room
const [SMALLEST, ROOM] = [3, 400]; // CSS pixels
const GROUP = 8; // bits; a line is a whole number of groups

export class BitBar {
  private code: Uint8Array = new Uint8Array();
  private cursor = 0; // the bit that the space bar flips
  private read = 0; // bits
  private size = SMALLEST; // CSS pixels of a bit
  private perLine = GROUP; // bits
  private readonly box = find("bits", SVGSVGElement);
  private readonly layers = LAYERS.map((name) => {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", name);
    this.box.append(path);
    return [name, path] as const;
  });

  constructor(private readonly flip: (bit: number) => void) {
    this.box.addEventListener("click", ({ clientX, clientY }) => {
      const { left, top } = this.box.getBoundingClientRect();
      const bit = Math.floor((clientY - top) / this.size) * this.perLine + Math.floor((clientX - left) / this.size);
      if (bit < this.count) this.flipAt(bit);
    });
    this.box.addEventListener("keydown", (event) => {
      const moves: Record<string, number> = {
        ...{ ArrowLeft: this.cursor - 1, ArrowRight: this.cursor + 1 },
        ...{ ArrowUp: this.cursor - this.perLine, ArrowDown: this.cursor + this.perLine },
        ...{ Home: 0, End: this.count - 1 },
      };
      const to = moves[event.key];
      if (to === undefined && event.key !== " ") return;
      event.preventDefault();
      if (to === undefined) this.flipAt(this.cursor);
      else if (to >= 0 && to < this.count) this.moveTo(to);
    });
    window.addEventListener("resize", () => this.draw());
  }

  /** Shows a code; bits that are others than in `original` are marked. */
  show(code: Uint8Array, original: Uint8Array): void {
    this.code = code;
    this.cursor = Math.max(0, Math.min(this.cursor, this.count - 1));
    this.draw();
    const flipped = this.bits.filter((bit) => this.isOne(bit) !== isOne(original, bit));
    this.set("flipped", flipped);
  }

  /** Covers the first bits. */
  showRead(bits: number): void {
    this.read = Math.min(this.count, Math.round(bits));
    const [lines, rest] = [Math.floor(this.read / this.perLine), this.read % this.perLine];
    const { size } = this;
    const full = `M0 0h${this.perLine * size}v${lines * size}h${-this.perLine * size}z`;
    this.path("read").setAttribute("d", `${full}M0 ${lines * size}h${rest * size}v${size}h${-rest * size}z`);
  }

  private get count(): number {
    return 8 * this.code.length;
  }

  private get bits(): number[] {
    return Array.from({ length: this.count }, (_, bit) => bit);
  }


  private isOne(bit: number): boolean {
    return isOne(this.code, bit);
  }

  private flipAt(bit: number): void {
    this.moveTo(bit);
    this.flip(bit);
  }

  private moveTo(bit: number): void {
    this.cursor = bit;
    this.set("cursor", this.count ? [bit] : []);
    this.box.setAttribute("aria-valuemax", String(this.count));
    this.box.setAttribute("aria-valuenow", String(this.count && bit + 1));
    this.box.setAttribute("aria-valuetext", `${bit + 1} of ${this.count}: ${this.isOne(bit) ? 1 : 0}`);
  }

  private draw(): void {
    const { clientWidth } = this.box.parentElement!;
    const perLine = (size: number) => Math.max(1, Math.floor(clientWidth / size / GROUP)) * GROUP;
    this.size = SIZES.find((size) => Math.ceil(this.count / perLine(size)) * size <= ROOM) ?? SMALLEST;
    this.perLine = perLine(this.size);
    const lines = Math.ceil(this.count / this.perLine);
    this.box.setAttribute("width", String(Math.min(this.count, this.perLine) * this.size));
    this.box.setAttribute("height", String(lines * this.size));
    this.set("ones", this.bits.filter((bit) => this.isOne(bit)));
    this.set("zeros", this.bits.filter((bit) => !this.isOne(bit)));
    this.moveTo(this.cursor);
    this.showRead(this.read);
  }

  private set(layer: (typeof LAYERS)[number], bits: number[]): void {
    const { size, perLine } = this;
    const square = (bit: number) => `M${(bit % perLine) * size} ${Math.floor(bit / perLine) * size}${outline}`;
    const outline = `h${size - 1}v${size - 1}h${1 - size}z`;
    this.path(layer).setAttribute("d", bits.map(square).join(""));
  }

  private path(layer: (typeof LAYERS)[number]): SVGPathElement {
    return this.layers.find(([name]) => name === layer)![1];
  }
}

/** Whether a bit is 1; those behind the end are 0. The first bit of a byte is its highest. */
const isOne = (code: Uint8Array, bit: number): boolean => (((code[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1) === 1;

/** A copy of a code in which one bit is the other. */
export function withFlipped(code: Uint8Array, bit: number): Uint8Array {
  const flipped = code.slice();
  flipped[bit >> 3]! ^= 128 >> (bit & 7);
  return flipped;
}
