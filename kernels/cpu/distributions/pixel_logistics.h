// The mixture of discretised logistics of kernels/pixel_logistics for the C bytes of a step: each byte's component is drawn
// from the posterior given the pixel's earlier bytes, whose errors move its mean. Only arithmetic that gives the same bits
// on every processor: no function of the C library but the exact ones.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "distributions/categorical.h"
#include "runner.h"

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

// Number of coefficients of a component.
static inline int64_t coefficients_of(const Shape& shape) { return shape.step_bytes * (shape.step_bytes - 1) / 2; }

// Floats of scratch memory that run_pixel needs.
static inline int64_t pixel_scratch(const Shape& shape) {
    return shape.components * (2 * shape.step_bytes + coefficients_of(shape) + 3);
}

// Returns rows [K, n] of parameters in the order [n, K], in which components stand side by side: in `to`, or where they are
// already.
static inline const float* transpose(const float* from, int64_t K, int64_t n, float* to) {
    if (n == 1) return from;
    for (int64_t k = 0; k < K; k++)
        for (int64_t i = 0; i < n; i++) to[i * K + k] = from[k * n + i];
    return to;
}

// Goes through the channels of a pixel. With `draw`, paints the `bytes` [C] that are not known; with `bits` [C], writes
// what the bytes cost given the earlier ones, under logits divided by the temperature and scales multiplied by it.
static inline void run_pixel(const Shape& shape, const float* parameters, float temperature, const Draw* draw,
                             uint8_t* bytes, double* bits, float* scratch) {
    const int64_t K = shape.components, C = shape.step_bytes, coefficients = coefficients_of(shape);
    float *scales = scratch + K * C, *logs = scales + K * (C + coefficients), *moved = logs + K, *weights = moved + K;

    // Parameters by channel, the components of each side by side.
    const float* means = transpose(parameters + K, K, C, scratch);
    const float* raw = transpose(parameters + K + K * C, K, C, scales);
    const float* factors = transpose(parameters + K + 2 * K * C, K, coefficients, scales + K * C);
    for (int64_t i = 0; i < K * C; i += W)
        store_partial(scales + i, scale_of(load_partial(raw + i, K * C - i), shape.exp_scale) * temperature, K * C - i);

    // Logarithms of the components' weights, to which each byte adds what they gave it.
    for (int64_t i = 0; i < K; i += W)
        store_partial(logs + i, load_partial(parameters + i, K - i) / temperature, K - i);

    Weighed weighed = weigh(logs, K, 1.0f, weights);
    double given = weighed.log_sum();
    float seen[MOST_CHANNELS];
    for (int64_t c = 0; c < C; c++) {
        const float *mean = c ? moved : means, *own_scales = scales + c * K, *own_factors = factors + c * (c - 1) / 2 * K;
        // The errors of the earlier bytes move the means.
        for (int64_t i = 0; c && i < K; i += W) {
            const auto at = [&](const float* part) { return load_partial(part + i, K - i); };
            V sum = at(means + c * K);
            for (int64_t e = 0; e < c; e++) sum = sum + at(own_factors + e * K) * (seen[e] - at(means + e * K));
            store_partial(moved + i, sum, K - i);
        }

        // A component drawn by its weight given the earlier bytes, and a byte from its logistic.
        if (draw && !draw->known[c]) {
            const Uniforms u = uniforms(draw->seed, draw->index, draw->position + c);
            const int64_t picked = choose(weights, K, u.first, weighed.total);
            bytes[c] = byte_of(mean[picked] + own_scales[picked] * logit(u.second));
        }
        if (c + 1 == C && !bits) return;  // no later byte depends on this one

        // What each component gives the byte; what that takes from the sum of all weights is the byte's cost.
        seen[c] = float(bytes[c]) / 127.5f - 1.0f;
        for (int64_t i = 0; i < K; i += W) {
            const auto at = [&](const float* part) { return load_partial(part + i, K - i); };
            store_partial(logs + i, at(logs) + log_bin(seen[c] - at(mean), at(own_scales), bytes[c]), K - i);
        }
        weighed = weigh(logs, K, 1.0f, weights);
        if (!bits) continue;
        const double now = weighed.log_sum();
        bits[c] = (given - now) * BITS_OF_E;
        given = now;
    }
}

}  // namespace ISA
