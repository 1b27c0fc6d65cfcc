// The server paints the same job: how fast, and how much of it is the same.

import { begin } from "../api/stream";

export interface Asked {
  model: string;
  n: number;
  seed: string;
  temperature: number;
}

/** Images [n, N] that the server paints, and the seconds that it took; throws what it refuses. */
export function onTheServer(asked: Asked, bytes: number): { painted: Promise<[Uint8Array, number]>; stop: () => void } {
  const images = new Uint8Array(asked.n * bytes);
  const began = performance.now();
  let stop = () => {};
  const painted = new Promise<[Uint8Array, number]>((resolve, reject) => {
    stop = begin(
      { type: "generate", ...asked },
      {
        frame: ({ index, first, bytes: part }) => images.set(part, index * bytes + first),
        ended: () => resolve([images, (performance.now() - began) / 1000]),
        failed: reject,
      },
    );
  });
  return { painted, stop };
}

/** Where each of the images [n, N] first differs from the other; null where it does not. */
export function differences(ours: Uint8Array, theirs: Uint8Array, bytes: number): (number | null)[] {
  return Array.from({ length: ours.length / bytes }, (_, image) => {
    for (let at = image * bytes; at < (image + 1) * bytes; at++) if (ours[at] !== theirs[at]) return at - image * bytes;
    return null;
  });
}

/** The share of equal bytes. */
export function equalBytes(ours: Uint8Array, theirs: Uint8Array): number {
  return ours.reduce((equal, byte, at) => equal + Number(byte === theirs[at]), 0) / ours.length;
}
