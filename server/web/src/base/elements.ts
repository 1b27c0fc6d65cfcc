// Elements of index.html by id, and new ones.

/** The element with that id; throws if index.html has none of that kind. */
export function find<T extends Element>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`index.html has no ${kind.name} #${id}`);
  return found;
}

export function onClick(id: string, listener: () => void): void {
  find(id, HTMLButtonElement).addEventListener("click", listener);
}

export function setText(id: string, text: string): void {
  find(id, HTMLElement).textContent = text;
}

/** Makes an element with properties and children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<HTMLElementTagNameMap[K]> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** CSS pixels for one image pixel, so that an image `width` pixels wide takes at most `room` CSS pixels. The result is
 * a whole number of device pixels, at least one: otherwise some rows and columns would be drawn wider than others. */
export function pixelScale(width: number, room: number): number {
  const density = window.devicePixelRatio || 1;
  return Math.max(1, Math.floor((room * density) / width)) / density;
}

/** Sets the displayed size of a canvas to `scale` CSS pixels per canvas pixel. */
export function enlarge(canvas: HTMLCanvasElement, scale: number): void {
  canvas.style.width = `${canvas.width * scale}px`;
  canvas.style.height = `${canvas.height * scale}px`;
}
