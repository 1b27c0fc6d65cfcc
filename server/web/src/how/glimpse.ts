// The state of one layer and head at one moment, as the websocket's `trace` tells it.

export interface Glimpse {
  position: number; // of the byte that comes next
  s: Float32Array; // [C * M]
  z: Float32Array; // [C]
}

export function readGlimpse(message: Record<string, unknown>): Glimpse {
  return { position: Number(message.position), s: floats(String(message.s)), z: floats(String(message.z)) };
}

function floats(base64: string): Float32Array {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, index) => view.getFloat32(4 * index, true));
}

/** The largest magnitude among values. */
export const largest = (values: Float32Array): number =>
  values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
