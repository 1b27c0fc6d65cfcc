// The mixture of kernels/pixel_logistics for the C bytes of a pixel: each byte's component is drawn from the posterior
// given the pixel's earlier bytes, whose errors move its mean.
#pragma once
#include "abi.h"
#include "distributions/logistics.h"

namespace ISA {

// Number of coefficients of a component.
static inline int64_t coefficients_of(const Shape& shape) { return shape.channels * (shape.channels - 1) / 2; }

// Floats of scratch memory that run_pixel needs.
static inline int64_t pixel_scratch(const Shape& shape) {
    return shape.components * (2 * shape.channels + coefficients_of(shape) + 3);
}

// Gives rows [K, n] of parameters the order [n, K], in which components stand side by side.
static inline void transpose(const float* from, int64_t K, int64_t n, float* to) {
    for (int64_t k = 0; k < K; k++)
        for (int64_t i = 0; i < n; i++) to[i * K + k] = from[k * n + i];
}

// What decides the bytes that are not known.
struct Draw {
    int64_t seed, index, position;  // position: of the step's first byte
    float temperature;
    const uint8_t* known;  // [step_bytes]
};

// Goes through the channels of a pixel. With `draw`, paints the `bytes` [C] that are not known; with `bits` [C], writes
// what the bytes cost given the earlier ones, under logits divided by the temperature and scales multiplied by it.
static inline void run_pixel(const Shape& shape, const float* parameters, float temperature, const Draw* draw,
                             uint8_t* bytes, double* bits, float* scratch) {
    const int64_t K = shape.components, C = shape.channels, coefficients = coefficients_of(shape);
    float *means = scratch, *scales = means + K * C, *factors = scales + K * C, *logs = factors + K * coefficients;
    float *mean = logs + K, *weights = mean + K;
    transpose(parameters + K, K, C, means);
    transpose(parameters + K + K * C, K, C, scales);
    transpose(parameters + K + 2 * K * C, K, coefficients, factors);
    for (int64_t i = 0; i < K * C; i += W)
        store_partial(scales + i, scale_of(load_partial(scales + i, K * C - i), true) * temperature, K * C - i);
    // logarithms of the components' weights, to which each byte adds what they gave it
    for (int64_t i = 0; i < K; i += W)
        store_partial(logs + i, load_partial(parameters + i, K - i) / temperature, K - i);

    Weighed weighed = weigh(logs, K, 1.0f, weights);
    double given = weighed.log_sum();
    float seen[MOST_CHANNELS];
    for (int64_t c = 0; c < C; c++) {
        const float *own_scales = scales + c * K, *own_factors = factors + c * (c - 1) / 2 * K;
        for (int64_t i = 0; i < K; i += W) {
            const auto at = [&](const float* part) { return load_partial(part + i, K - i); };
            V moved = at(means + c * K);
            for (int64_t e = 0; e < c; e++) moved = moved + at(own_factors + e * K) * (seen[e] - at(means + e * K));
            store_partial(mean + i, moved, K - i);
        }
        if (draw && !draw->known[c]) {
            const Uniforms u = uniforms(draw->seed, draw->index, draw->position + c);
            const int64_t picked = choose(weights, K, u.first, weighed.total);
            bytes[c] = byte_of(mean[picked] + own_scales[picked] * logit(u.second));
        }
        if (c + 1 == C && !bits) return;  // no later byte depends on this one
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
