// Tables of the codec's functions, as in kernels/codec/tables.py: whole numbers, the same in every browser. A function
// between two entries of its table is linear. Bits are fixed-point numbers with the unit 1 / BIT.

export const BIT = 2 ** 16;
export const ONE = 2 ** 30; // what exp2 is at 0
export const SURE = 2 ** 26; // what a sigmoid is far above 0
export const SIGMOID_BITS = 28; // farther from 0, a sigmoid is 0 or SURE

const UNIT = 1n << 62n;
const ROOTS = [
  // 2^(-1/2), 2^(-1/4) ... 2^(-1/256) in units of 2^-62, rounded down
  ...[0x2d413cccfe779921n, 0x35d13f32b5a75abdn, 0x3ab031b9f7490e4bn, 0x3d495f454921b30bn],
  ...[0x3ea0ecb6dc8a80cen, 0x3f4f83033d21b05dn, 0x3fa784571ee3e212n, 0x3fd3b2d65447b229n],
];

/** 2^(-j / 256) for j from 0 to 256, times ONE. */
export const EXP2 = table(256, (j) => power(j) / (UNIT / BigInt(ONE)));
/** log2(1 + j / 256) for j from 0 to 256, times BIT. */
export const LOG2 = table(256, (j) => (j === 256 ? BigInt(BIT) : logarithm(j)));
/** 1 / (1 + 2^(j / 64)) for j from 0 to 64 SIGMOID_BITS, times SURE. */
export const SIGMOID = table(64 * SIGMOID_BITS, (j) => power(4 * j) / ((UNIT + power(4 * j)) / BigInt(SURE)));

function table(last: number, entry: (j: number) => bigint): Float64Array {
  return Float64Array.from({ length: last + 1 }, (_, j) => Number(entry(j)));
}

/** 2^(-j / 256) in units of 2^-62. */
function power(j: number): bigint {
  const product = ROOTS.reduce((power, root, i) => ((j >> (7 - i)) & 1 ? (power * root) >> 62n : power), UNIT);
  return product >> BigInt(j >> 8);
}

/** log2(1 + j / 256), times BIT, for j below 256: a digit by each squaring. */
function logarithm(j: number): bigint {
  let [number, digits] = [BigInt(256 + j) << 54n, 0n];
  for (let i = 0; i < 16; i++) {
    number = (number * number) >> 62n;
    digits = (digits << 1n) | (number >> 63n);
    number >>= number >> 63n;
  }
  return digits;
}
