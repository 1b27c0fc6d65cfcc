// A grey picture in another size, byte for byte as Pillow's Image.resize with its default, the bicubic filter: one direction
// after the other, with factors in whole numbers.

export interface PictureSize {
  height: number;
  width: number;
}

const ONE = 2 ** 22; // the factors' unit
const SUPPORT = 2;
const SHARPNESS = -0.5;

export function resized(picture: Uint8Array, from: PictureSize, to: PictureSize): Uint8Array {
  const narrow = lines(picture, from.height, from.width, to.width);
  return transposed(lines(transposed(narrow, from.height, to.width), to.width, from.height, to.height), to.width, to.height);
}

/** A grey picture in another size, each pixel the nearest, as Pillow's. */
export function nearestOf(picture: Uint8Array, from: PictureSize, to: PictureSize): Uint8Array {
  const place = (at: number, size: number, length: number) => Math.floor((at + 0.5) * (length / size));
  return Uint8Array.from({ length: to.height * to.width }, (_, at) => {
    const row = place(Math.floor(at / to.width), to.height, from.height);
    return picture[row * from.width + place(at % to.width, to.width, from.width)]!;
  });
}

/** The same lines with another number of pixels. */
function lines(picture: Uint8Array, count: number, length: number, size: number): Uint8Array {
  if (size === length) return picture;
  const made = new Uint8Array(count * size);
  const scale = length / size;
  const widening = Math.max(scale, 1);
  for (let at = 0; at < size; at++) {
    const centre = (at + 0.5) * scale;
    const first = Math.max(Math.trunc(centre - SUPPORT * widening + 0.5), 0);
    const stop = Math.min(Math.trunc(centre + SUPPORT * widening + 0.5), length);
    const weights = Array.from({ length: stop - first }, (_, i) => bicubic((i + first - centre + 0.5) / widening));
    const sum = weights.reduce((a, b) => a + b);
    const factors = weights.map((weight) => Math.trunc((weight / sum) * ONE + (weight < 0 ? -0.5 : 0.5)));
    for (let line = 0; line < count; line++) {
      const all = factors.reduce((total, factor, i) => total + factor * picture[line * length + first + i]!, ONE / 2);
      made[line * size + at] = Math.min(Math.max(Math.floor(all / ONE), 0), 255);
    }
  }
  return made;
}

function transposed(picture: Uint8Array, height: number, width: number): Uint8Array {
  return picture.map((_, at) => picture[(at % height) * width + Math.floor(at / height)]!);
}

function bicubic(distance: number): number {
  const x = Math.abs(distance);
  if (x < 1) return ((SHARPNESS + 2) * x - (SHARPNESS + 3)) * x * x + 1;
  return x < SUPPORT ? (((x - 5) * x + 8) * x - 4) * SHARPNESS : 0;
}
