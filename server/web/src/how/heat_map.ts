// Heat maps of numbers: warm colours are positive, cold ones negative.

const POSITIVE = [217, 83, 44];
const NEGATIVE = [49, 118, 201];

/** Draws values row by row, `width` per row. Zero is transparent, so that it works on a light and a dark background;
 * `most` is opaque. */
export function drawHeatMap(canvas: HTMLCanvasElement, values: Float32Array, width: number, most: number): void {
  const height = values.length / width;
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d")!;
  const pixels = context.createImageData(width, height);
  values.forEach((value, index) => {
    const alpha = 255 * Math.sqrt(Math.abs(value) / (most || 1)); // the root makes small values visible
    pixels.data.set([...(value < 0 ? NEGATIVE : POSITIVE), alpha], 4 * index);
  });
  context.putImageData(pixels, 0, 0);
}
