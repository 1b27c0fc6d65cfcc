// A state snapshot: s and z of one layer and head after some bytes, as the websocket sends it, and its heat map.

/** The state after `position` bytes. */
export interface StateSnapshot {
  position: number;
  s: Float32Array; // [C * M]
  z: Float32Array; // [C]
}

export function readSnapshot(message: Record<string, unknown>): StateSnapshot {
  return { position: Number(message.position), s: floats(String(message.s)), z: floats(String(message.z)) };
}

/** Float32 values from base64, little endian. */
function floats(base64: string): Float32Array {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, index) => view.getFloat32(4 * index, true));
}

export const largestMagnitude = (values: Float32Array): number =>
  values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

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
