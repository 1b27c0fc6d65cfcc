// The mixture of discretised logistics of kernels/mixture for one byte: anchored means, the draw, and the cost in bits.
// Only arithmetic that gives the same bits on every processor: no function of the C library but the exact ones.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "abi.h"
#include "elementwise.h"
#include "philox.h"

namespace ISA {

// The four candidates of kernels/mixture/anchors.py for the byte at `position`.
static inline void anchor_values(const Shape& shape, const uint8_t* image, int64_t position, float* four) {
    const int64_t row_bytes = shape.width * shape.channels;
    const bool inner_column = position / shape.channels % shape.width != 0, inner_row = position >= row_bytes;
    const auto value = [&](bool inside, int64_t back) {
        return inside ? float(image[position - back]) / 127.5f - 1.0f : 0.0f;
    };
    const float left = value(inner_column, shape.channels), above = value(inner_row, row_bytes);
    const float corner = value(inner_column && inner_row, row_bytes + shape.channels);
    four[0] = left;
    four[1] = above;
    four[2] = std::fmin(std::fmax(left + above - corner, -1.0f), 1.0f);
    four[3] = 0;
}

// Shifts the means of parameters [3K + anchor numbers] by the anchor that the network chose among painted neighbours.
static inline void apply_anchors(const Shape& shape, const uint8_t* image, int64_t position, float* parameters) {
    const int64_t K = shape.components;
    const float* choice = parameters + 3 * K;
    float values[4], before[4];
    anchor_values(shape, image, position, values);
    // a further channel of a pixel also follows what the previous channel did relative to its own candidates
    if (position % shape.channels) {
        anchor_values(shape, image, position - 1, before);
        const float share = 1 / (1 + exponential(-choice[4])), seen = float(image[position - 1]) / 127.5f - 1.0f;
        for (int i = 0; i < 4; i++) values[i] += share * (seen - before[i]);
    }
    const float top = std::fmax(std::fmax(choice[0], choice[1]), std::fmax(choice[2], choice[3]));
    float total = 0, sum = 0;
    for (int i = 0; i < 4; i++) {
        const float weight = exponential(choice[i] - top);
        total += weight;
        sum += weight * values[i];
    }
    for (int64_t i = K; i < 2 * K; i++) parameters[i] += sum / total;
}

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

// An index below n, drawn by `uniform` with probabilities proportional to e^(logit / temperature); `weights` [n] is
// scratch memory. One chain of additions, gone through twice, so that the last sum is the total itself.
static inline int64_t pick(const float* logits, int64_t n, float uniform, float temperature, float* weights) {
    const float top = largest_of(logits, n);
    for (int64_t i = 0; i < n; i += W)
        store_partial(weights + i, exponential((load_partial(logits + i, n - i) - top) / temperature), n - i);
    float total = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) total += weights[i];
    int64_t picked = 0;
    for (const float target = uniform * total; picked < n - 1; picked++) {
        sum += weights[picked];
        if (target < sum) break;
    }
    return picked;
}

// The byte whose bin holds the real number x, and the outer bytes beyond [-1, 1].
static inline uint8_t byte_of(float x) {
    const float byte = nearest(std::min(std::max((x + 1.0f) * 127.5f, -1.0f), 256.0f));
    return byte >= 255.0f ? 255 : byte > 0.0f ? uint8_t(byte) : 0;
}

// elu(raw) + 1.0001 or e^raw, raw being at least -7.
static inline V scale_of(V raw, bool exp_scale) {
    if (exp_scale) return exponential(larger(raw, splat(-7.0f)));
    return raw > 0.0f ? raw + 1.0001f : exponential(raw) + (1.0001f - 1.0f);
}

// ln of what a logistic distribution gives the byte `value`: `centred` is the byte's real number minus the mean.
// log(sigmoid(a) - sigmoid(b)) = log sigmoid(a) + log sigmoid(-b) + log(1 - e^(b - a)), exact far from the mean too; the
// first and the last byte take all that lies beyond them.
static inline V log_bin(V centred, V scale, uint8_t value) {
    constexpr float HALF_BIN = 1.0f / 255;
    V log{};
    if (value != 255) log = log + log_sigmoid((centred + HALF_BIN) / scale);
    if (value != 0) log = log + log_sigmoid((HALF_BIN - centred) / scale);
    if (value != 0 && value != 255) log = log + log_one_minus_exponential(2 * HALF_BIN / scale);
    return log;
}

// One byte from parameters [3K]: logits, means, raw scales. The first uniform picks the component, the second
// inverts its logistic; temperature divides the logits and multiplies the scales. `scratch` [K].
static inline uint8_t sample(const float* parameters, int64_t K, Uniforms u, float temperature, bool exp_scale,
                             float* scratch) {
    const int64_t picked = pick(parameters, K, u.first, temperature, scratch);
    const float scale = scale_of(splat(parameters[2 * K + picked]), exp_scale)[0] * temperature;
    // 1 - u is exact
    return byte_of(parameters[K + picked] + scale * (logarithm(u.second) - logarithm(1.0f - u.second)));
}

// Bits that the byte `value` costs at temperature 1; `logs` [K] is scratch memory.
static inline double bits_of(const float* parameters, int64_t K, uint8_t value, bool exp_scale, float* logs) {
    const float x = float(value) / 127.5f - 1.0f, top = largest_of(parameters, K);
    for (int64_t i = 0; i < K; i += W) {
        const auto at = [&](int64_t part) { return load_partial(parameters + part * K + i, K - i); };
        store_partial(logs + i, at(0) - top + log_bin(x - at(1), scale_of(at(2), exp_scale), value), K - i);
    }
    const float largest = largest_of(logs, K);
    if (largest == -INFINITY) return INFINITY;
    const float share = logarithm(sum_exponentials(logs, K, largest)), whole = logarithm(sum_exponentials(parameters, K, top));
    return -(double(largest) + share - whole) * 1.4426950408889634;
}

}  // namespace ISA
