// One vector of floats, as wide as the instruction set that this file is compiled for, and what the compiler's own
// vector arithmetic (+ - * / ? :) lacks: fused multiply-add, float16, partial vectors, sums in one order for all widths.
// Every function gives the same bits on every instruction set.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
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
constexpr int LANES = 16;  // of lane_sum, whatever W is
typedef float V __attribute__((vector_size(4 * W)));
typedef int32_t VI __attribute__((vector_size(4 * W)));
typedef uint16_t half;  // the bits of a float16

static inline V load(const float* p) {
    V v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void store(float* p, V v) { memcpy(p, &v, sizeof v); }

// -1 in the lanes below n, 0 in the others.
static inline VI lanes_below(int64_t n) {
    VI lane;
    UNROLL for (int i = 0; i < W; i++) lane[i] = i;
    return lane < int32_t(n);
}

// v with zero in the lanes from n on.
static inline V first_lanes(V v, int64_t n) { return lanes_below(n) ? v : V{}; }

// The first n floats, the other lanes zero; memory beyond them is not read. n >= W is the whole vector.
static inline V load_partial(const float* p, int64_t n) {
    if (n >= W) return load(p);
#if defined(__AVX512F__)
    return (V)_mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p);
#elif defined(__AVX2__)
    return (V)_mm256_maskload_ps(p, (__m256i)lanes_below(n));
#else
    V v{};
    memcpy(&v, p, 4 * n);
    return v;
#endif
}
static inline void store_partial(float* p, V v, int64_t n) {
    if (n >= W) return store(p, v);
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), (__m512)v);
#elif defined(__AVX2__)
    _mm256_maskstore_ps(p, (__m256i)lanes_below(n), (__m256)v);
#else
    memcpy(p, &v, 4 * n);
#endif
}

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
#elif defined(__AVX2__)
static inline V fma(V a, V b, V c) { return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
static inline V load(const half* p) { return (V)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)); }
#elif defined(__ARM_NEON)
static inline V fma(V a, V b, V c) { return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
static inline V load(const half* p) { return (V)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
#else
// Two of the lanes of V as doubles.
typedef double Pair __attribute__((vector_size(16)));
typedef int64_t PairBits __attribute__((vector_size(16)));
typedef uint64_t PairUnsigned __attribute__((vector_size(16)));

// product + addend rounded to odd: an inexact sum whose last bit is 0 moves one step toward the exact one. Its error is
// found exactly (Knuth's TwoSum); squares are compared because infinity has the error NaN, which must count as none.
static inline Pair add_to_odd(Pair product, Pair addend) {
    const Pair sum = product + addend, part = sum - product, error = (product - (sum - part)) + (addend - part);
    const PairBits bits = (PairBits)sum;
    const PairBits step = 1 - (PairBits)((PairUnsigned)(bits ^ (PairBits)error) >> 63 << 1);
    return (Pair)(bits + (step & (PairBits)(error * error > 0) & -(~bits & 1)));
}

// The product of two floats is exact in double. What is rounded to odd there, with more than two bits to spare, rounds
// to the float that the exact sum rounds to (Boldo and Melquiond, 2008): bit for bit the hardware's fused instruction.
__attribute__((noinline)) static V fma_by_pairs(V a, V b, V c) {
    typedef double Wide __attribute__((vector_size(8 * W)));
    const Wide product = __builtin_convertvector(a, Wide) * __builtin_convertvector(b, Wide);
    Wide sum = __builtin_convertvector(c, Wide);
    Pair products[W / 2], sums[W / 2];
    memcpy(products, &product, sizeof product);
    memcpy(sums, &sum, sizeof sum);
    UNROLL for (int i = 0; i < W / 2; i++) sums[i] = add_to_odd(products[i], sums[i]);
    memcpy(&sum, sums, sizeof sum);
    return __builtin_convertvector(sum, V);
}
#if defined(__SSE2__)
// Rounding twice errs only where the sum in double, itself rounded, lies halfway between two floats: its low 29 bits are
// 1000..., or it is below the normal floats. That is rare.
static inline V fma(V a, V b, V c) {
    const auto low = [](V v) { return _mm_cvtps_pd((__m128)v); };
    const auto high = [](V v) { return _mm_cvtps_pd(_mm_movehl_ps((__m128)v, (__m128)v)); };
    const __m128d sum01 = _mm_add_pd(_mm_mul_pd(low(a), low(b)), low(c));
    const __m128d sum23 = _mm_add_pd(_mm_mul_pd(high(a), high(b)), high(c));
    const VI low_bits = (VI)_mm_shuffle_ps((__m128)sum01, (__m128)sum23, 0x88);
    const VI high_bits = (VI)_mm_shuffle_ps((__m128)sum01, (__m128)sum23, 0xDD);
    const VI doubtful = ((low_bits & 0x1FFFFFFF) == 0x10000000) | ((high_bits & 0x7FFFFFFF) < 0x38100000);
    if (__builtin_expect(_mm_movemask_ps((__m128)doubtful), 0)) return fma_by_pairs(a, b, c);
    return (V)_mm_movelh_ps(_mm_cvtpd_ps(sum01), _mm_cvtpd_ps(sum23));
}
#elif defined(__wasm_simd128__)
// The same. Relaxed SIMD's instruction may round once or twice, as the browser likes, and is not used.
static inline V fma(V a, V b, V c) {
    const auto low = [](V v) { return wasm_f64x2_promote_low_f32x4((v128_t)v); };
    const auto high = [](V v) { return wasm_f64x2_promote_low_f32x4(wasm_i32x4_shuffle((v128_t)v, (v128_t)v, 2, 3, 2, 3)); };
    const v128_t sum01 = wasm_f64x2_add(wasm_f64x2_mul(low(a), low(b)), low(c));
    const v128_t sum23 = wasm_f64x2_add(wasm_f64x2_mul(high(a), high(b)), high(c));
    const VI low_bits = (VI)wasm_i32x4_shuffle(sum01, sum23, 0, 2, 4, 6);
    const VI high_bits = (VI)wasm_i32x4_shuffle(sum01, sum23, 1, 3, 5, 7);
    const VI doubtful = ((low_bits & 0x1FFFFFFF) == 0x10000000) | ((high_bits & 0x7FFFFFFF) < 0x38100000);
    if (__builtin_expect(wasm_v128_any_true((v128_t)doubtful), 0)) return fma_by_pairs(a, b, c);
    const v128_t low_floats = wasm_f32x4_demote_f64x2_zero(sum01), high_floats = wasm_f32x4_demote_f64x2_zero(sum23);
    return (V)wasm_i32x4_shuffle(low_floats, high_floats, 0, 1, 4, 5);
}
#else
static inline V fma(V a, V b, V c) { return fma_by_pairs(a, b, c); }
#endif
static inline V load(const half* p) {
    V v;
    for (int i = 0; i < W; i++) v[i] = half_to_float(p[i]);
    return v;
}
#endif

// Where converting float16 numbers takes longer than their products, those of two columns are in 32 bits, in the order
// that takes the fewest instructions, and what is loaded is 2^-102 times the number: 5 bits of an exponent alone, which
// shifted to their place in a float32 are one of 2^-126 to 2^-96. Every float16 below 128 in size is a normal number there,
// the smallest one, 2^-24, too; or zero.
#if defined(__AVX512F__)
constexpr bool IN_PAIRS = true;
constexpr uint32_t NUMBER_BITS = 0x8FFFE000;  // of a float32: its sign, the 5 bits and 10 of the fraction

static inline void load_pair(const half* p, V& first, V& second) {
    const __m512i bits = _mm512_set1_epi32(int32_t(NUMBER_BITS));
    __m512i words = _mm512_loadu_si512(p);
    asm("" : "+v"(words));  // else it is loaded three times
    first = (V)_mm512_and_si512(_mm512_slli_epi32(words, 13), bits);
    second = (V)_mm512_ternarylogic_epi32(_mm512_srli_epi32(words, 3), words, bits, 0x28);  // (a ^ b) & c
}

#else
constexpr bool IN_PAIRS = false;
static inline void load_pair(const half*, V&, V&) {}
#endif
constexpr float PAIR_SCALE = 0x1p102f, PAIR_LIMIT = 128;

// The 32 bits of two such numbers.
static inline uint32_t pack_pair(float first, float second) {
    first /= PAIR_SCALE;
    second /= PAIR_SCALE;
    uint32_t word, other;
    memcpy(&word, &first, 4);
    memcpy(&other, &second, 4);
    word >>= 13;  // the sign to bit 18, the others to the bits 0 to 14
    word |= (other ^ word >> 3) & 1 << 15;
    for (int bit = 13; bit < 28; bit++) word |= ((other ^ word) & 1u << bit) << 3;
    return word | (other & 1u << 31);
}

// W bytes as floats, and the low bytes of W whole numbers: the compiler's own conversions go lane by lane.
static inline V load_bytes(const uint8_t* p) {
#if defined(__AVX512F__)
    return (V)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p)));
#elif defined(__AVX2__)
    return (V)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)));
#else
    VI v;
    for (int i = 0; i < W; i++) v[i] = p[i];
    return __builtin_convertvector(v, V);
#endif
}
static inline void store_bytes(uint8_t* p, VI v) {
#if defined(__AVX512F__)
    _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8((__m512i)v));
#elif defined(__AVX2__)
    const __m256i low = _mm256_and_si256((__m256i)v, _mm256_set1_epi32(255));
    const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storel_epi64((__m128i*)p, _mm_packus_epi16(words, words));
#else
    for (int i = 0; i < W; i++) p[i] = uint8_t(v[i]);
#endif
}

// All lanes as one, op being applied to those 8, 4, 2 and 1 apart.
template <class Op>
static inline float fold(V v, const Op& op) {
#if defined(__AVX512F__) || defined(__AVX2__)
#if defined(__AVX512F__)
    const __m256 eight = op(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
#else
    const __m256 eight = (__m256)v;
#endif
    const __m128 four = op(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = op(four, _mm_movehl_ps(four, four));
    return op(two, _mm_shuffle_ps(two, two, 1))[0];
#else
    for (int width = W / 2; width; width /= 2)
        for (int j = 0; j < width; j++) v[j] = op(v[j], v[j + width]);
    return v[0];
#endif
}

// Sums over i < n as if every vector had LANES lanes: lane l takes i = l, l + LANES, l + 2 LANES, ..., and the lanes are
// added 16 -> 8 -> 4 -> 2 -> 1. step(sum, i, count) returns `sum` with the terms i .. i + count - 1 added to its first
// `count` lanes and the others as they were; count is W but at the end.
template <class Step>
static inline float lane_sum(int64_t n, const Step& step) {
    V lanes[LANES / W] = {};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        UNROLL for (int j = 0; j < LANES / W; j++) lanes[j] = step(lanes[j], i + j * W, W);
    UNROLL for (int j = 0; j < LANES / W; j++)
        if (i + j * W < n) lanes[j] = step(lanes[j], i + j * W, n - i - j * W < W ? n - i - j * W : W);
    UNROLL for (int width = LANES / W / 2; width; width /= 2)
        UNROLL for (int j = 0; j < width; j++) lanes[j] = lanes[j] + lanes[j + width];
    return fold(lanes[0], [](auto a, auto b) { return a + b; });
}

// x rounded to a whole number, ties to even, for |x| < 2^22: next to 1.5 * 2^23 a float has no bits for a fraction.
static inline float nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

static inline V larger(V a, V b) { return a > b ? a : b; }

static inline float hmax(V v) {
    return fold(v, [](auto a, auto b) { return a > b ? a : b; });
}

}  // namespace ISA
