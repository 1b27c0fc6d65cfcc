// Elementwise functions on vectors. Their exact arithmetic is part of every image: a seed's bytes change with any bit.
#pragma once
#include "arithmetic/vector.h"

namespace ISA {

// ln 2 in two parts, the first with so few bits that its product with a whole number below 256 is exact.
constexpr float LN2_HIGH = 0.693145751953125f, LN2_LOW = 1.42860682e-6f;

// e^x for x from -87 to 88; x beyond these bounds is clamped to them, and NaN to the lower one. x = n ln 2 + r, |r| <= ln 2 / 2, and a
// polynomial for e^r (Taylor's up to r^7, below 1e-8 there). The error is below one unit in the last place (ulp).
static inline V exponential(V x) {
    x = larger(x, splat(-87.0f));
    x = x > 88.0f ? splat(88.0f) : x;
    // adding 1.5 * 2^23 rounds x / ln 2 to a whole number, which then stands in the low bits
    const V shifted = fma(x, splat(1.44269504f), splat(12582912.0f));
    const V n = shifted - 12582912.0f;
    const V r = fma(n, splat(-LN2_LOW), fma(n, splat(-LN2_HIGH), x));
    V p = splat(1.0f / 5040);
    p = fma(p, r, splat(1.0f / 720));
    p = fma(p, r, splat(1.0f / 120));
    p = fma(p, r, splat(1.0f / 24));
    p = fma(p, r, splat(1.0f / 6));
    p = fma(p, r, splat(0.5f));
    p = fma(p, r, splat(1.0f));
    p = fma(p, r, splat(1.0f));
    // times 2^n: n is added to the exponent's bits
    return (V)((VI)p + ((VI)shifted << 23));
}

// ln x for normal x > 0; smaller x, and 0, are taken as 2^-126. x = 2^e m with m from sqrt(1/2) to sqrt 2, f = m - 1, and
// ln m = f - f^2 / 2 + f^3 P(f) with the polynomial of Cephes' logf (Moshier). Error: below 1 ulp.
static inline V logarithm(V x) {
    const V normal = larger(x, splat(0x1p-126f));
    const VI shifted = (VI)normal - 0x3F3504F3;  // the bits of sqrt(1/2): the exponent's become e
    const V e = __builtin_convertvector(shifted >> 23, V), f = (V)((shifted & 0x007FFFFF) + 0x3F3504F3) - 1.0f;
    V p = splat(7.0376836292e-2f);
    p = fma(p, f, splat(-1.1514610310e-1f));
    p = fma(p, f, splat(1.1676998740e-1f));
    p = fma(p, f, splat(-1.2420140846e-1f));
    p = fma(p, f, splat(1.4249322787e-1f));
    p = fma(p, f, splat(-1.6668057665e-1f));
    p = fma(p, f, splat(2.0000714765e-1f));
    p = fma(p, f, splat(-2.4999993993e-1f));
    p = fma(p, f, splat(3.3333331174e-1f));
    const V square = f * f;
    p = fma(e, splat(LN2_LOW), f * square * p);
    return fma(e, splat(LN2_HIGH), f + fma(square, splat(-0.5f), p));
}

// The same of one number.
static inline float exponential(float x) { return exponential(splat(x))[0]; }
static inline float logarithm(float x) { return logarithm(splat(x))[0]; }

// ln(1 + x) for x from 0 to 1: the rounding error of the sum is x - (sum - 1), and divided by the sum it corrects the
// logarithm. Error: below 1.5 ulp.
static inline V log_one_plus(V x) {
    const V sum = x + 1.0f;
    return logarithm(sum) + (x - (sum - 1.0f)) / sum;
}

// 1 - e^-a for a > 0. Below ln 2 / 2 the difference would cancel: there it is Taylor's series itself.
static inline V one_minus_exponential(V a) {
    V p = splat(-1.0f / 5040);
    p = fma(p, a, splat(1.0f / 720));
    p = fma(p, a, splat(-1.0f / 120));
    p = fma(p, a, splat(1.0f / 24));
    p = fma(p, a, splat(-1.0f / 6));
    p = fma(p, a, splat(0.5f));
    return a < 0.34f ? fma(p * a, -a, a) : 1.0f - exponential(-a);
}

// ln(1 - e^-a) for a > 0. Above ln 2 / 2, the correction of log_one_plus. Error: below 4 ulp.
static inline V log_one_minus_exponential(V a) {
    const V difference = one_minus_exponential(a), e = exponential(-a);
    return logarithm(difference) + (a < 0.34f ? V{} : ((1.0f - difference) - e) / difference);
}

// ln sigmoid(x) = min(x, 0) - ln(1 + e^-|x|), stable on both sides. Error: below 2.5 ulp.
static inline V log_sigmoid(V x) {
    const V negative = x < 0.0f ? x : V{};
    return negative - log_one_plus(exponential(negative + negative - x));
}

// phi(x) = elu(x) + 1 (eq. 7).
static inline V elu_plus_one(V x) { return x > 0.0f ? x + 1.0f : exponential(x); }

static inline V relu(V x) { return x > 0.0f ? x : V{}; }

// x Phi(x), Phi being the normal distribution: Phi(x) - 1/2 = x P(x^2) / Q(x^2) within 6e-9 for |x| <= 5.4
// (least squares with weights raised where the error is largest), and constant beyond.
static inline V gelu(V x) {
    V c = x > 5.4f ? splat(5.4f) : x;
    c = c < -5.4f ? splat(-5.4f) : c;
    const V u = c * c;
    V p = splat(2.338694748971193e-08f);
    p = fma(p, u, splat(6.3600032262911554e-06f));
    p = fma(p, u, splat(0.000164319048053585f));
    p = fma(p, u, splat(0.004650834947824478f));
    p = fma(p, u, splat(0.03337196633219719f));
    p = fma(p, u, splat(0.398942232131958f));
    V q = splat(1.2165960470156278e-06f);
    q = fma(q, u, splat(7.239935075631365e-05f));
    q = fma(q, u, splat(0.0018589664250612259f));
    q = fma(q, u, splat(0.02837853692471981f));
    q = fma(q, u, splat(0.25031721591949463f));
    q = fma(q, u, splat(1.0f));
    return x * (c * p / q + 0.5f);
}

}  // namespace ISA
