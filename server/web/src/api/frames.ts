// Binary frames: little endian, u32 job, u32 image index, u32 first byte position, then the bytes painted since.

export interface Frame {
  job: number;
  index: number;
  first: number;
  bytes: Uint8Array;
}

const HEAD = 12;

export function readFrame(data: ArrayBuffer): Frame {
  const head = new DataView(data, 0, HEAD);
  const word = (at: number) => head.getUint32(4 * at, true);
  return { job: word(0), index: word(1), first: word(2), bytes: new Uint8Array(data, HEAD) };
}
