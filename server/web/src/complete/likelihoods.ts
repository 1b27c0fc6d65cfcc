// How surprising each pixel is to the model: its bits, as the API tells them, and the colours for them.

import { call } from "../api/http";
import { png } from "../pictures/files";
import type { Picture } from "../pictures/picture";
import { base64 } from "./occlusion";

const MOST = 8; // bits that are drawn as the strongest colour: as many as an even guess among 256 costs
const RAMP = [
  [4, 6, 20],
  [76, 20, 110],
  [188, 55, 84],
  [249, 142, 9],
  [252, 255, 164],
];

/** Mean bits of a byte for every pixel of each picture, [H * W]. */
export async function bitsOf(model: string, pictures: Picture[]): Promise<number[][]> {
  const image = await Promise.all(pictures.map(async ({ canvas }) => base64(await png(canvas))));
  const answer = await call("v1/images/likelihoods", { model, image, per_pixel: true });
  const { data }: { data: { per_pixel: (number | number[])[][] }[] } = await answer.json();
  const mean = (bits: number | number[]) =>
    typeof bits === "number" ? bits : bits.reduce((sum, one) => sum + one, 0) / bits.length;
  return data.map(({ per_pixel }) => per_pixel.flat(1).map(mean));
}

/** The colour [red, green, blue] for so many bits. */
export function colourOf(bits: number): number[] {
  const at = (Math.min(MOST, bits) / MOST) * (RAMP.length - 1);
  const low = Math.min(RAMP.length - 2, Math.floor(at));
  return RAMP[low]!.map((from, channel) => from + (at - low) * (RAMP[low + 1]![channel]! - from));
}
