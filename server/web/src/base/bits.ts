// Bits in bytes, the first of eight the lowest.

export function packed(bits: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(Math.ceil(bits.length / 8));
  bits.forEach((bit, at) => (bytes[at >> 3]! |= bit << (at & 7)));
  return bytes;
}

/** So many bits; those that the bytes lack are 0. */
export function unpacked(bytes: Uint8Array, count: number): Uint8Array {
  return Uint8Array.from({ length: count }, (_, at) => (bytes[at >> 3]! >> (at & 7)) & 1);
}
