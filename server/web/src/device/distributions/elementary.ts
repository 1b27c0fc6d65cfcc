// Exponential and logarithm in float32, the polynomials of kernels/cpu/arithmetic/elementwise.h: their last bits are the same in
// every browser, which those of Math.exp and Math.log are not.

const f = Math.fround;

const float = new Float32Array(1);
const bits = new Int32Array(float.buffer); // of `float`

// ln 2 in two parts, the first with so few bits that its product with a whole number below 256 is exact.
const [LN2_HIGH, LN2_LOW] = [f(0.693145751953125), f(1.42860682e-6)];
const INVERSE_LN2 = f(1.44269504);
const HALF_SQUARE_ROOT = 0x3f3504f3; // the bits of sqrt(1/2)
const SMALLEST = 2 ** -126;

/** a b + c of float32 numbers, rounded once but for a share of 2^-29: the product is exact in float64. */
const fma = (a: number, b: number, c: number): number => f(a * b + c);

/** e^x for x from -87 to 88, and that of the nearer bound beyond them. */
export function exponential(x: number): number {
  const bounded = f(Math.min(88, Math.max(-87, x)));
  const n = f(fma(bounded, INVERSE_LN2, 12582912) - 12582912); // 1.5 * 2^23 rounds to a whole number
  const r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, bounded));
  let p = fma(f(1 / 5040), r, f(1 / 720)); // Taylor's series of e^r
  p = fma(p, r, f(1 / 120));
  p = fma(p, r, f(1 / 24));
  p = fma(p, r, f(1 / 6));
  p = fma(p, r, 0.5);
  p = fma(p, r, 1);
  float[0] = fma(p, r, 1);
  bits[0]! += n << 23; // times 2^n
  return float[0]!;
}

/** ln x for x > 0; that of 2^-126 below it. */
export function logarithm(x: number): number {
  float[0] = Math.max(x, SMALLEST);
  const shifted = (bits[0]! - HALF_SQUARE_ROOT) | 0;
  const exponent = shifted >> 23;
  bits[0] = (shifted & 0x007fffff) + HALF_SQUARE_ROOT; // now from sqrt(1/2) to sqrt 2
  const r = f(float[0]! - 1);
  const square = f(r * r);
  let p = fma(f(7.0376836292e-2), r, f(-1.151461031e-1)); // (ln(1 + r) - r + r^2 / 2) / r^3, as Cephes' logf has it
  p = fma(p, r, f(1.1676998740e-1));
  p = fma(p, r, f(-1.2420140846e-1));
  p = fma(p, r, f(1.4249322787e-1));
  p = fma(p, r, f(-1.6668057665e-1));
  p = fma(p, r, f(2.0000714765e-1));
  p = fma(p, r, f(-2.4999993993e-1));
  p = fma(p, r, f(3.3333331174e-1));
  const tail = fma(exponent, LN2_LOW, f(f(r * square) * p));
  return fma(exponent, LN2_HIGH, f(r + fma(square, -0.5, tail)));
}

/** ln sigmoid(x) = min(x, 0) - ln(1 + e^-|x|). */
export function logSigmoid(x: number): number {
  return f(Math.min(x, 0) - logOnePlus(exponential(-Math.abs(x))));
}

/** ln(1 + x) for x from 0 to 1; what the sum loses by rounding, divided by the sum, is given back. */
function logOnePlus(x: number): number {
  const sum = f(x + 1);
  return f(logarithm(sum) + f(f(x - f(sum - 1)) / sum));
}

/** ln(1 - e^-a) for a > 0; the difference would cancel where a is small. What it loses by rounding is given back. */
export function logOneMinusExponential(a: number): number {
  if (a >= f(0.34)) {
    const power = exponential(-a);
    const difference = f(1 - power);
    return f(logarithm(difference) + f(f(f(1 - difference) - power) / difference));
  }
  let p = fma(f(-1 / 5040), a, f(1 / 720)); // (a - 1 + e^-a) / a^2
  p = fma(p, a, f(-1 / 120));
  p = fma(p, a, f(1 / 24));
  p = fma(p, a, f(-1 / 6));
  p = fma(p, a, 0.5);
  return logarithm(fma(f(p * a), -a, a));
}
