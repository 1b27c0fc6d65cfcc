// How long a PNG of a picture is: the shortest of those with one filter for all rows, and of one with the filter for each
// row that leaves the smallest differences.

import { has } from "../base/browser";
import { png } from "./files";
import type { Picture } from "./picture";

const FRAME = 57; // bytes of a PNG beside its compressed rows
type Filter = (value: number, left: number, above: number, corner: number) => number;
const FILTERS: Filter[] = [
  (value) => value,
  (value, left) => value - left,
  (value, _, above) => value - above,
  (value, left, above) => value - ((left + above) >> 1),
  (value, left, above, corner) => value - nearest(left, above, corner),
];

export async function pngSize({ canvas, size: { width, height, channels }, bytes }: Picture): Promise<number> {
  if (!has("CompressionStream")) return (await png(canvas)).size;
  const length = width * channels;
  const rows = Array.from({ length: height }, (_, row) => bytes.subarray(row * length, (row + 1) * length));
  const filtered = rows.map((row, y) => FILTERS.map((_, filter) => apply(filter, row, rows[y - 1], channels)));
  const smallest = filtered.map((ways) => ways.reduce((best, way) => (roughness(way) < roughness(best) ? way : best)));
  const images = [...FILTERS.map((_, filter) => filtered.map((ways) => ways[filter]!)), smallest];
  return FRAME + Math.min(...(await Promise.all(images.map(deflatedSize))));
}

/** A row after a filter, whose number is before it. */
function apply(filter: number, row: Uint8Array, above: Uint8Array | undefined, channels: number): Uint8Array {
  const of = FILTERS[filter]!;
  const left = (of: Uint8Array | undefined, at: number) => of?.[at - channels] ?? 0;
  return Uint8Array.of(filter, ...row.map((value, at) => of(value, left(row, at), above?.[at] ?? 0, left(above, at))));
}

/** The one of three neighbours that is nearest to left + above - corner (Paeth). */
function nearest(left: number, above: number, corner: number): number {
  const [a, b, c] = [Math.abs(above - corner), Math.abs(left - corner), Math.abs(left + above - 2 * corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? above : corner;
}

const roughness = (row: Uint8Array): number => row.reduce((sum, byte) => sum + Math.min(byte, 256 - byte), 0);

async function deflatedSize(rows: Uint8Array[]): Promise<number> {
  const stream = new Blob(rows as BlobPart[]).stream().pipeThrough(new CompressionStream("deflate"));
  return (await new Response(stream).arrayBuffer()).byteLength;
}
