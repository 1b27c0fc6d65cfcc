// Elementwise functions on vectors, each within a few units in the last place of float32.
#pragma once
#include "vector.h"

namespace WAY {

// e^x for x from -87 to 88; what lies beyond is taken as the bound. x = n ln 2 + r, |r| <= ln 2 / 2, and a
// polynomial for e^r (Taylor's up to r^7, below 1e-8 there).
static inline V exponential(V x) {
    x = x < -87.0f ? all(-87.0f) : x;
    x = x > 88.0f ? all(88.0f) : x;
    const V shifted = fma(x, all(1.44269504f), all(12582912.0f));  // + 1.5 * 2^23: the low bits hold round(x / ln 2)
    const V n = shifted - 12582912.0f;
    const V r = fma(n, all(1.42860677e-6f), fma(n, all(-0.693145752f), x));
    V p = all(1.0f / 5040);
    p = fma(p, r, all(1.0f / 720));
    p = fma(p, r, all(1.0f / 120));
    p = fma(p, r, all(1.0f / 24));
    p = fma(p, r, all(1.0f / 6));
    p = fma(p, r, all(0.5f));
    p = fma(p, r, all(1.0f));
    p = fma(p, r, all(1.0f));
    return (V)((VI)p + ((VI)shifted << 23));
}

// phi(x) = elu(x) + 1 (eq. 7).
static inline V elu_plus_one(V x) { return x > 0.0f ? x + 1.0f : exponential(x); }

static inline V relu(V x) { return x > 0.0f ? x : V{}; }

// x Phi(x), Phi being the normal distribution: Phi(x) - 1/2 = x P(x^2) / Q(x^2) within 6e-9 for |x| <= 5.4
// (least squares with weights raised where the error is largest), and constant beyond.
static inline V gelu(V x) {
    V c = x > 5.4f ? all(5.4f) : x;
    c = c < -5.4f ? all(-5.4f) : c;
    const V u = c * c;
    V p = all(2.338694748971193e-08f), q = all(1.2165960470156278e-06f);
    p = fma(p, u, all(6.3600032262911554e-06f)), q = fma(q, u, all(7.239935075631365e-05f));
    p = fma(p, u, all(0.000164319048053585f)), q = fma(q, u, all(0.0018589664250612259f));
    p = fma(p, u, all(0.004650834947824478f)), q = fma(q, u, all(0.02837853692471981f));
    p = fma(p, u, all(0.03337196633219719f)), q = fma(q, u, all(0.25031721591949463f));
    p = fma(p, u, all(0.398942232131958f)), q = fma(q, u, all(1.0f));
    return x * (c * p / q + 0.5f);
}

}  // namespace WAY
