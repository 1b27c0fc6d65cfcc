// The pictures of a sheet or of a film's last frame, by what their recipe says of the grid that they stand in.

import { make } from "../base/elements";
import { Picture, type Size } from "../pictures/picture";
import type { Recipe } from "./recipe";

export interface Image {
  image: CanvasImageSource;
  width: number;
  height: number;
}

/** The pictures of an image, each of the model's size; undefined where they do not stand in a grid, or are resized. */
export function cut({ image, width, height }: Image, recipe: Recipe, size: Size): Picture[] | undefined {
  const { columns = 1, scale = 1, frames, request, known_sha256: known } = recipe;
  const n = request.n ?? 1;
  const gap = scale > 1 && !frames ? scale : 0;
  const across = size.width * scale + gap;
  const down = size.height * scale + gap;
  const rows = Math.floor((height + gap) / down);
  // names stand on the left, and above
  const left = width + gap - columns * across;
  const top = height + gap - rows * down;
  if (recipe.size || recipe.write || !rows || left < 0 || (!recipe.each && !recipe.labels && (left || top))) return undefined;
  const hasOthers = recipe.each || (known && columns === n + 2); // the picture that is completed, before and after
  const count = hasOthers ? rows * columns : recipe.index === undefined ? n * (known?.length ?? 1) : 1;
  const context = make("canvas", { width: size.width, height: size.height }).getContext("2d", { willReadFrequently: true })!;
  context.imageSmoothingEnabled = false;
  return Array.from({ length: Math.min(count, rows * columns) }, (_, index) => {
    const x = left + (index % columns) * across;
    const y = top + Math.floor(index / columns) * down;
    context.drawImage(image, x, y, size.width * scale, size.height * scale, 0, 0, size.width, size.height);
    const { data } = context.getImageData(0, 0, size.width, size.height);
    const bytes = data.filter((_, at) => at % 4 < size.channels);
    return Picture.of(size, Uint8Array.from(bytes, (byte) => (recipe.invert ? 255 - byte : byte)));
  });
}
