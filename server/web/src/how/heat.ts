// Numbers as colours: warm above zero, cold below, see-through at zero, so that both themes show through.

import { crisp } from "../pictures/scale";

const [WARM, COLD] = [
  [217, 83, 44],
  [49, 118, 201],
];

/** Draws values row by row, `width` in a row; `most` is drawn in full colour. */
export function heat(canvas: HTMLCanvasElement, values: Float32Array, width: number, most: number): void {
  const height = values.length / width;
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d")!;
  const pixels = context.createImageData(width, height);
  values.forEach((value, index) => {
    const alpha = 255 * Math.sqrt(Math.abs(value) / (most || 1)); // the root lets small ones be seen
    pixels.data.set([...(value < 0 ? COLD : WARM)!, alpha], 4 * index);
  });
  context.putImageData(pixels, 0, 0);
}

/** Shows a canvas at a whole scale, so that `across` of its pixels are at most `room` wide. */
export function enlarge(canvas: HTMLCanvasElement, across: number, room: number): void {
  const scale = crisp(across, room);
  canvas.style.width = `${canvas.width * scale}px`;
  canvas.style.height = `${canvas.height * scale}px`;
}
