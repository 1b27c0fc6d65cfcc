// The mixture of discretised logistics of kernels/logistics for one byte: the draw, and the cost in bits.
// Only arithmetic that gives the same bits on every processor: no function of the C library but the exact ones.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "distributions/categorical.h"

namespace ISA {

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

// ln of the probability of the byte `value` under a logistic distribution: `centred` is its real number minus the mean.
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

// ln(u / (1 - u)), the quantile of the standard logistic distribution at u; 1 - u is exact.
static inline float logit(float uniform) {
    V both = splat(uniform);
    both[1] = 1.0f - uniform;
    both = logarithm(both);
    return both[0] - both[1];
}

// One byte from parameters [3K]: logits, means, raw scales. The first uniform picks the component, the second
// inverts its logistic; temperature divides the logits and multiplies the scales. `scratch` [K].
static inline uint8_t sample_logistics(const float* parameters, int64_t K, Uniforms u, float temperature,
                                       bool exp_scale, float* scratch) {
    const int64_t picked = pick(parameters, K, u.first, temperature, scratch);
    const float scale = scale_of(splat(parameters[2 * K + picked]), exp_scale)[0] * temperature;
    return byte_of(parameters[K + picked] + scale * logit(u.second));
}

// Bits that the byte `value` costs at temperature 1; `logs` [K] is scratch memory.
static inline double logistics_bits(const float* parameters, int64_t K, uint8_t value, bool exp_scale, float* logs) {
    const float x = float(value) / 127.5f - 1.0f, top = largest_of(parameters, K);
    for (int64_t i = 0; i < K; i += W) {
        const auto at = [&](int64_t part) { return load_partial(parameters + part * K + i, K - i); };
        store_partial(logs + i, at(0) - top + log_bin(x - at(1), scale_of(at(2), exp_scale), value), K - i);
    }
    const float largest = largest_of(logs, K);
    if (largest == -INFINITY) return INFINITY;
    const float share = logarithm(sum_exponentials(logs, K, largest));
    return -(double(largest) + share - logarithm(sum_exponentials(parameters, K, top))) * BITS_OF_E;
}

}  // namespace ISA
