// Philox 4x32-10, as in kernels/philox.py: the random numbers of a byte are a function of seed, image and position.

const MASK = 0xffffffffn;
const DRAW = 2 ** 32 - 1; // in the place of a position: the random number of an image's class

/** Two uniforms in (0, 1), exact in float32, for byte `position` of image `index` under a seed below 2^63; `particle` is in the
 * high word of an index. */
export function uniforms(seed: bigint, index: number, position: number, particle = Math.floor(index / 2 ** 32)): [number, number] {
  const key: [number, number] = [Number(seed & MASK), Number((seed >> 32n) & MASK)];
  const [first, second] = philox([position, index >>> 0, particle, 0], key);
  return [unit(first), unit(second)];
}

/** The label of image `index` where one of so many classes is drawn, as drawn_label in model/base/class_names.py. */
export function drawnLabel(classes: number, seed: bigint, index: number): number {
  return 1 + Math.floor(classes * uniforms(seed, index, DRAW)[0]);
}

/** Ten rounds on four words with a key of two, all in [0, 2^32). */
export function philox(counter: Words, key: [number, number]): Words {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < 10; round++) {
    const [high0, low0] = multiply(0xd2511f53, c0);
    const [high1, low1] = multiply(0xcd9e8d57, c2);
    [c0, c1, c2, c3] = [(high1 ^ c1 ^ k0) >>> 0, low1, (high0 ^ c3 ^ k1) >>> 0, low0];
    k0 = (k0 + 0x9e3779b9) >>> 0;
    k1 = (k1 + 0xbb67ae85) >>> 0;
  }
  return [c0, c1, c2, c3];
}

type Words = [number, number, number, number];

/** High and low word of a 64-bit product; no intermediate value exceeds 2^53. */
function multiply(a: number, b: number): [number, number] {
  const upper = a * (b >>> 16) + Math.floor((a * (b & 0xffff)) / 65536);
  return [Math.floor(upper / 65536), Math.imul(a, b) >>> 0];
}

/** The 23 highest bits plus a half, as a fraction: neither 0 nor 1. */
const unit = (word: number): number => ((word >>> 9) + 0.5) * 2 ** -23;
