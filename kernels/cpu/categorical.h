// Softmax over logits: the draw of an index and sums of exponentials, as the mixtures use them too, and the categorical
// distribution of kernels/categorical for one byte. Only arithmetic that gives the same bits on every processor.
#pragma once
#include <algorithm>

#include "elementwise.h"
#include "philox.h"

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

// ln of the sum of e^x over n numbers.
static inline double log_sum_exponentials(const float* numbers, int64_t n) {
    const float top = largest_of(numbers, n);
    return double(top) + logarithm(sum_exponentials(numbers, n, top));
}

// An index below n, drawn by `uniform` with probabilities proportional to e^(logit / temperature); `weights` [n] is
// scratch memory. Weights are added in blocks of 16, each by a chain of its own, and then the blocks in order.
static inline int64_t pick(const float* logits, int64_t n, float uniform, float temperature, float* weights) {
    constexpr int64_t BLOCK = 16;
    const float top = largest_of(logits, n);
    for (int64_t i = 0; i < n; i += W)
        store_partial(weights + i, exponential((load_partial(logits + i, n - i) - top) / temperature), n - i);

    const auto block_sum = [&](int64_t begin) {
        float sum = 0;
        for (int64_t i = begin; i < std::min(begin + BLOCK, n); i++) sum += weights[i];
        return sum;
    };
    float total = 0, before = 0;
    for (int64_t i = 0; i < n; i += BLOCK) total += block_sum(i);
    const float target = uniform * total;
    int64_t begin = 0;
    for (; begin + BLOCK < n; begin += BLOCK) {
        const float after = before + block_sum(begin);
        if (target < after) break;
        before = after;
    }
    // rounding may leave the target beyond the block's last sum: then it is the last index
    const int64_t last = std::min(begin + BLOCK, n) - 1;
    int64_t picked = begin;
    for (float sum = before; picked < last; picked++) {
        sum += weights[picked];
        if (target < sum) break;
    }
    return picked;
}

// One byte from 256 logits: the first uniform picks it.
static inline uint8_t sample_categorical(const float* logits, Uniforms u, float temperature, float* scratch) {
    return uint8_t(pick(logits, VALUES, u.first, temperature, scratch));
}

// Bits that the byte `value` costs at temperature 1.
static inline double categorical_bits(const float* logits, uint8_t value) {
    return (log_sum_exponentials(logits, VALUES) - double(logits[value])) * BITS_OF_E;
}

}  // namespace ISA
