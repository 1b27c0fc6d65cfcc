// Activations in 8 bits and their products with int8 weights. The sums are whole numbers, the same by every instruction
// set's own way. Both factors are from -127 to 127: a pair of products fits 16 bits, and nothing saturates.
#pragma once
#include "arithmetic/packing.h"

namespace ISA {

// Int8Weights: for each lane (column) four successive weights. Int8Factors: the four activations they meet, in every
// lane. dot: sum += their products.
#if defined(__AVX512F__)
typedef __m512i Int8Factors;
static inline Int8Factors load_int8_factors(const uint8_t* four) {
    int32_t a;
    memcpy(&a, four, 4);
    return _mm512_set1_epi32(a);
}
#if defined(__AVX512VNNI__)
// left in memory: the instruction reads them from there, and registers are full of sums
typedef const int8_t* Int8Weights;
static inline Int8Weights load_int8_weights(const int8_t* p) { return p; }
static inline VI dot(VI sum, Int8Factors a, Int8Weights w) {
    return (VI)_mm512_dpbusd_epi32((__m512i)sum, a, _mm512_loadu_si512(w));
}
#else
// the instruction multiplies unsigned by signed numbers: |w| by a with the sign of w
struct Int8Weights {
    __m512i size;
    __mmask64 negative;
};
static inline Int8Weights load_int8_weights(const int8_t* p) {
    const __m512i w = _mm512_loadu_si512(p);
    return {_mm512_abs_epi8(w), _mm512_movepi8_mask(w)};
}
static inline VI dot(VI sum, Int8Factors a, Int8Weights w) {
    const __m512i pairs = _mm512_maddubs_epi16(w.size, _mm512_mask_sub_epi8(a, w.negative, __m512i{}, a));
    return sum + (VI)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
}
#endif

#elif defined(__AVX2__)
typedef __m256i Int8Factors, Int8Weights;
static inline Int8Factors load_int8_factors(const uint8_t* four) {
    int32_t a;
    memcpy(&a, four, 4);
    return _mm256_set1_epi32(a);
}
static inline Int8Weights load_int8_weights(const int8_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
#if defined(__AVXVNNI__)
static inline VI dot(VI sum, Int8Factors a, Int8Weights w) {
    return (VI)_mm256_dpbusd_avx_epi32((__m256i)sum, a, w);
}
#else
// the instruction multiplies unsigned by signed numbers: |w| by a with the sign of w
static inline VI dot(VI sum, Int8Factors a, Int8Weights w) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
    return sum + (VI)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
#endif

#elif defined(__ARM_NEON)
typedef int8x16_t Int8Weights;
typedef int8x8_t Int8Factors;
static inline Int8Factors load_int8_factors(const uint8_t* four) {
    int32_t a;
    memcpy(&a, four, 4);
    return vreinterpret_s8_s32(vdup_n_s32(a));
}
static inline Int8Weights load_int8_weights(const int8_t* p) { return vld1q_s8(p); }
static inline VI dot(VI sum, Int8Factors a, Int8Weights w) {
    const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(w), a)), high = vpaddlq_s16(vmull_s8(vget_high_s8(w), a));
    return sum + (VI)vpaddq_s32(low, high);
}

#elif defined(__SSE2__)
struct Int8Weights {
    __m128i low, high;  // of 16 bits, two columns each
};
typedef __m128i Int8Factors;
static inline Int8Factors load_int8_factors(const uint8_t* four) {
    int32_t a;
    memcpy(&a, four, 4);
    const __m128i bytes = _mm_set1_epi32(a);
    return _mm_srai_epi16(_mm_unpacklo_epi8(bytes, bytes), 8);
}
static inline Int8Weights load_int8_weights(const int8_t* p) {
    const __m128i w = _mm_loadu_si128((const __m128i*)p);
    return {_mm_srai_epi16(_mm_unpacklo_epi8(w, w), 8), _mm_srai_epi16(_mm_unpackhi_epi8(w, w), 8)};
}
static inline VI dot(VI sum, Int8Factors a, Int8Weights w) {
    // of each column, the sum of its first two products and that of the others
    const __m128 low = _mm_castsi128_ps(_mm_madd_epi16(w.low, a)), high = _mm_castsi128_ps(_mm_madd_epi16(w.high, a));
    return sum + (VI)_mm_shuffle_ps(low, high, 0x88) + (VI)_mm_shuffle_ps(low, high, 0xDD);
}

#elif defined(__wasm_simd128__)
struct Int8Weights {
    v128_t low, high;  // of 16 bits, two columns each
};
typedef v128_t Int8Factors;
static inline Int8Factors load_int8_factors(const uint8_t* four) {
    int32_t a;
    memcpy(&a, four, 4);
    return wasm_i16x8_extend_low_i8x16(wasm_i32x4_splat(a));
}
static inline Int8Weights load_int8_weights(const int8_t* p) {
    const v128_t w = wasm_v128_load(p);
    return {wasm_i16x8_extend_low_i8x16(w), wasm_i16x8_extend_high_i8x16(w)};
}
static inline VI dot(VI sum, Int8Factors a, Int8Weights w) {
    // of each column, the sum of its first two products and that of the others
    const v128_t low = wasm_i32x4_dot_i16x8(w.low, a), high = wasm_i32x4_dot_i16x8(w.high, a);
    return sum + (VI)wasm_i32x4_shuffle(low, high, 0, 2, 4, 6) + (VI)wasm_i32x4_shuffle(low, high, 1, 3, 5, 7);
}

#else
struct Int8Weights {
    const int8_t* columns;
};
struct Int8Factors {
    const int8_t* four;
};
static inline Int8Factors load_int8_factors(const uint8_t* four) { return {(const int8_t*)four}; }
static inline Int8Weights load_int8_weights(const int8_t* p) { return {p}; }
static inline VI dot(VI sum, Int8Factors a, Int8Weights w) {
    for (int lane = 0; lane < W; lane++)
        for (int i = 0; i < 4; i++) sum[lane] += a.four[i] * w.columns[4 * lane + i];
    return sum;
}
#endif

// One row in 8 bits: round(x / scale) + INT8_ZERO with scale = max |x| / 127, padded with zero to whole vectors. The next
// row may begin within the padding: it is written afterwards. NaN is zero: its own bits differ between processors.
static inline void quantise(const float* x, int64_t n, uint8_t* bytes, float* scale) {
    V largest{};
    for (int64_t i = 0; i < n; i += W) {
        const V v = load_partial(x + i, n - i);
        largest = larger(v < 0.0f ? -v : v, largest);
    }
    const float top = hmax(largest), factor = top > 0x1p-100f ? 127 / top : 0;  // else infinite
    *scale = top / 127;
    // as in exponential(): the sum's low bits hold the number, rounded to nearest even
    const V zero = splat(12582912.0f + INT8_ZERO);
    for (int64_t i = 0; i < n; i += W) {
        const V rounded = fma(load_partial(x + i, n - i), splat(factor), zero);
        store_bytes(bytes + i, (VI)(rounded == rounded ? rounded : zero));
    }
}

}  // namespace ISA
