// One vector of floats, as wide as the instruction set that this file is compiled for, and what the compiler's own
// vector arithmetic (+ - * / ? :) lacks: fused multiply-add, float16, partial vectors, horizontal sums.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

// Loops over arrays of vectors must be unrolled fully, or the arrays live in memory instead of registers.
#define UNROLL _Pragma("GCC unroll 64")

namespace ISA {

#if defined(__AVX512F__)
constexpr int W = 16;
#elif defined(__AVX2__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif
typedef float V __attribute__((vector_size(4 * W)));
typedef int32_t VI __attribute__((vector_size(4 * W)));
typedef uint16_t half;  // the bits of a float16

static inline V load(const float* p) {
    V v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void store(float* p, V v) { memcpy(p, &v, sizeof v); }

// The first n < W floats, the other lanes zero.
static inline V load_partial(const float* p, int64_t n) {
    V v{};
    memcpy(&v, p, 4 * n);
    return v;
}
static inline void store_partial(float* p, V v, int64_t n) { memcpy(p, &v, 4 * n); }

// x in every lane. x - 0 and not x + 0, which would turn -0 into 0.
static inline V splat(float x) { return x - V{}; }

static inline float half_to_float(half h) {
    const uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023;
    float x;
    if (exponent == 0) {
        x = float(fraction) * 0x1p-24f;  // subnormal or zero
        return sign ? -x : x;
    }
    const uint32_t bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
    memcpy(&x, &bits, 4);
    return x;
}

// Rounds to nearest, ties to even; beyond the largest float16, infinity.
static inline half float_to_half(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000) return half(sign | 0x7E00);
    if (size >= 0x477FF000) return half(sign | 0x7C00);
    if (size < 0x38800000) {  // subnormal: adding 1/2 lets the float's own addition round at 2^-24
        float y;
        memcpy(&y, &size, 4);
        y += 0.5f;
        memcpy(&bits, &y, 4);
        return half(sign | (bits - 0x3F000000));
    }
    return half(sign | (size - 0x38000000 + 0xFFF + (size >> 13 & 1)) >> 13);
}

#if defined(__AVX512F__)
static inline V fma(V a, V b, V c) { return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
static inline V load(const half* p) { return (V)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p)); }
#elif defined(__AVX2__)
static inline V fma(V a, V b, V c) { return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
static inline V load(const half* p) { return (V)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)); }
#else
static inline V fma(V a, V b, V c) { return a * b + c; }
static inline V load(const half* p) {
    V v;
    for (int i = 0; i < W; i++) v[i] = half_to_float(p[i]);
    return v;
}
#endif

// Sum of the lanes, always added in the same order.
static inline float hsum(V v) {
    for (int width = W / 2; width; width /= 2)
        for (int i = 0; i < width; i++) v[i] += v[i + width];
    return v[0];
}

static inline float hmax(V v) {
    float x = v[0];
    for (int i = 1; i < W; i++) x = v[i] > x ? v[i] : x;
    return x;
}

}  // namespace ISA
