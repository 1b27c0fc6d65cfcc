// Softmax over logits: the draw of an index and sums of exponentials, as the mixtures use them too, and the categorical
// distribution of kernels/categorical for one byte. Only arithmetic that gives the same bits on every processor.
#pragma once
#include <algorithm>

#include "arithmetic/elementwise.h"
#include "arithmetic/philox.h"

namespace ISA {

constexpr int64_t VALUES = 256;  // of a byte
constexpr double BITS_OF_E = 1.4426950408889634;  // 1 / ln 2

// The largest of n >= 1 numbers.
static inline float largest_of(const float* numbers, int64_t n) {
    V top = splat(numbers[0]);
    for (int64_t i = 0; i < n; i += W) {
        const V v = load_partial(numbers + i, n - i);
        top = larger(n - i < W ? lanes_below(n - i) ? v : top : v, top);
    }
    return hmax(top);
}

// The sum of e^(x - top) over n numbers.
static inline float sum_exponentials(const float* numbers, int64_t n, float top) {
    return lane_sum(n, [&](V sum, int64_t i, int64_t count) {
        return sum + first_lanes(exponential(load_partial(numbers + i, count) - top), count);
    });
}

constexpr int64_t BLOCK = 16;  // weights are added in blocks, each by a chain of its own, and then the blocks in order

static inline float block_sum(const float* weights, int64_t n, int64_t begin) {
    float sum = 0;
    for (int64_t i = begin; i < std::min(begin + BLOCK, n); i++) sum += weights[i];
    return sum;
}

// Weights [n] proportional to probabilities: e^(logit - top).
struct Weighed {
    float top, total;

    // ln of the sum of e^logit
    double log_sum() const { return double(top) + logarithm(total); }
};

static inline Weighed weigh(const float* logits, int64_t n, float temperature, float* weights) {
    const float top = largest_of(logits, n);
    for (int64_t i = 0; i < n; i += W)
        store_partial(weights + i, exponential((load_partial(logits + i, n - i) - top) / temperature), n - i);
    float total = 0;
    for (int64_t i = 0; i < n; i += BLOCK) total += block_sum(weights, n, i);
    return {top, total};
}

// The index below n that `uniform` draws.
static inline int64_t choose(const float* weights, int64_t n, float uniform, float total) {
    const float target = uniform * total;
    float before = 0;
    int64_t begin = 0;
    for (; begin + BLOCK < n; begin += BLOCK) {
        const float after = before + block_sum(weights, n, begin);
        if (target < after) break;
        before = after;
    }
    // rounding may leave the target beyond the block's last sum: then it is the last index
    const int64_t last = std::min(begin + BLOCK, n) - 1;
    int64_t chosen = begin;
    for (float sum = before; chosen < last; chosen++) {
        sum += weights[chosen];
        if (target < sum) break;
    }
    return chosen;
}

// An index drawn with probabilities proportional to e^(logit / temperature); `weights` [n] is scratch memory.
static inline int64_t pick(const float* logits, int64_t n, float uniform, float temperature, float* weights) {
    return choose(weights, n, uniform, weigh(logits, n, temperature, weights).total);
}

// One byte from 256 logits: the first uniform picks it.
static inline uint8_t sample_categorical(const float* logits, Uniforms u, float temperature, float* scratch) {
    return uint8_t(pick(logits, VALUES, u.first, temperature, scratch));
}

// Logits drawn away from those without a class: without + guidance (with - without).
static inline void mix_logits(const float* with, const float* without, float guidance, float* mixed) {
    for (int64_t i = 0; i < VALUES; i += W) {
        const V u = load_partial(without + i, VALUES - i), c = load_partial(with + i, VALUES - i);
        store_partial(mixed + i, fma(splat(guidance), c - u, u), VALUES - i);
    }
}

// 0 where all n numbers are finite, else NaN.
static inline float zero_if_finite(const float* numbers, int64_t n) {
    return lane_sum(n, [&](V sum, int64_t i, int64_t count) { return sum + load_partial(numbers + i, count) * 0.0f; });
}

// Bits that the byte `value` costs at temperature 1.
static inline double categorical_bits(const float* logits, uint8_t value, float* scratch) {
    return (weigh(logits, VALUES, 1.0f, scratch).log_sum() - double(logits[value])) * BITS_OF_E;
}

}  // namespace ISA
