// Elementwise functions on vectors. Their exact arithmetic is part of every image: a seed's bytes change with any bit.
#pragma once
#include "vector.h"

namespace ISA {

// e^x for x from -87 to 88; x beyond these bounds is clamped to them. x = n ln 2 + r, |r| <= ln 2 / 2, and a
// polynomial for e^r (Taylor's up to r^7, below 1e-8 there). The relative error is 2.9e-6 |n|, see below.
static inline V exponential(V x) {
    x = x < -87.0f ? splat(-87.0f) : x;
    x = x > 88.0f ? splat(88.0f) : x;
    // adding 1.5 * 2^23 rounds x / ln 2 to a whole number, which then stands in the low bits
    const V shifted = fma(x, splat(1.44269504f), splat(12582912.0f));
    const V n = shifted - 12582912.0f;
    // ln 2 = 0.693145752 + 0.00000142860677, and the second part is added where it should be subtracted. It stays so
    // as long as the same seed must give the same image.
    const V r = fma(n, splat(1.42860677e-6f), fma(n, splat(-0.693145752f), x));
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
