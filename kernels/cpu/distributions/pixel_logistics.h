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

// Floats of scratch memory that a Mixture needs.
static inline int64_t mixture_scratch(const Shape& shape) {
    return shape.components * (2 * shape.step_bytes + coefficients_of(shape) + 3);
}

// Floats of scratch memory that draw_guided_pixel needs, and that is enough for run_pixel.
static inline int64_t pixel_scratch(const Shape& shape) {
    return 2 * mixture_scratch(shape) + 4 * shape.components + 3 * VALUES;
}

// Returns rows [K, n] of parameters in the order [n, K], in which components stand side by side: in `to`, or where they are
// already.
static inline const float* transpose(const float* from, int64_t K, int64_t n, float* to) {
    if (n == 1) return from;
    for (int64_t k = 0; k < K; k++)
        for (int64_t i = 0; i < n; i++) to[i * K + k] = from[k * n + i];
    return to;
}

// The components of a pixel while its bytes are gone through: logits divided by the temperature, scales multiplied by it.
struct Mixture {
    const int64_t K;
    const float *means, *factors;  // by channel, the components of each side by side
    float *scales, *logs, *moved, *weights;
    const float *mean, *scale;  // [K], of the channel
    Weighed weighed;  // of logs: logarithms of the components' weights, to which each byte adds what they gave it

    Mixture(const Shape& shape, const float* parameters, float temperature, float* scratch) : K(shape.components) {
        const int64_t C = shape.step_bytes, coefficients = coefficients_of(shape);
        scales = scratch + K * C, logs = scales + K * (C + coefficients), moved = logs + K, weights = moved + K;
        means = transpose(parameters + K, K, C, scratch);
        const float* raw = transpose(parameters + K + K * C, K, C, scales);
        factors = transpose(parameters + K + 2 * K * C, K, coefficients, scales + K * C);
        for (int64_t i = 0; i < K * C; i += W)
            store_partial(scales + i, scale_of(load_partial(raw + i, K * C - i), shape.exp_scale) * temperature, K * C - i);
        for (int64_t i = 0; i < K; i += W)
            store_partial(logs + i, load_partial(parameters + i, K - i) / temperature, K - i);
        weighed = weigh(logs, K, 1.0f, weights);
    }

    // Goes to channel c; the errors of the earlier bytes, of which `seen` are the real numbers, move its means.
    void enter(int64_t c, const float* seen) {
        mean = c ? moved : means, scale = scales + c * K;
        const float* own_factors = factors + c * (c - 1) / 2 * K;
        for (int64_t i = 0; c && i < K; i += W) {
            const auto at = [&](const float* part) { return load_partial(part + i, K - i); };
            V sum = at(means + c * K);
            for (int64_t e = 0; e < c; e++) sum = sum + at(own_factors + e * K) * (seen[e] - at(means + e * K));
            store_partial(moved + i, sum, K - i);
        }
    }

    // Adds what each component gives the byte of the channel, whose real number is `value`.
    void add(uint8_t byte, float value) {
        for (int64_t i = 0; i < K; i += W) {
            const auto at = [&](const float* part) { return load_partial(part + i, K - i); };
            store_partial(logs + i, at(logs) + log_bin(value - at(mean), at(scale), byte), K - i);
        }
        weighed = weigh(logs, K, 1.0f, weights);
    }
};

static inline float real_of(uint8_t byte) { return float(byte) / 127.5f - 1.0f; }

// Goes through the channels of a pixel. With `draw`, paints the `bytes` [C] that are not known; with `bits` [C], writes
// what the bytes cost given the earlier ones, under logits divided by the temperature and scales multiplied by it.
static inline void run_pixel(const Shape& shape, const float* parameters, float temperature, const Draw* draw,
                             uint8_t* bytes, double* bits, float* scratch) {
    const int64_t K = shape.components, C = shape.step_bytes;
    Mixture mixture(shape, parameters, temperature, scratch);
    double given = mixture.weighed.log_sum();
    float seen[MAX_CHANNELS];
    for (int64_t c = 0; c < C; c++) {
        mixture.enter(c, seen);
        // A component drawn by its weight given the earlier bytes, and a byte from its logistic.
        if (draw && !draw->known[c]) {
            const Uniforms u = uniforms(draw->seed, draw->index, draw->position + c);
            const int64_t picked = choose(mixture.weights, K, u.first, mixture.weighed.total);
            bytes[c] = byte_of(mixture.mean[picked] + mixture.scale[picked] * logit(u.second));
        }
        if (c + 1 == C && !bits) return;  // no later byte depends on this one

        // What the byte takes from the sum of all weights is its cost.
        seen[c] = real_of(bytes[c]);
        mixture.add(bytes[c], seen[c]);
        if (!bits) continue;
        const double now = mixture.weighed.log_sum();
        bits[c] = (given - now) * BITS_OF_E;
        given = now;
    }
}

// Of a guided byte: a probability below it counts as it. Far from all means logarithms differ without bound, and mixed they
// would choose the byte.
constexpr float MIN_PROBABILITY = 0x1p-40f;
constexpr float NEGLIGIBLE = 0x1p-66f;  // weight of a component, which over 256 values changes no bit of what is at least that
constexpr float FARTHEST = -35.0f;  // -|t|, below which a logistic gives a value less than 2^-50

// Writes ln of the probability of each value of the channel's byte to `logs` [VALUES]; `own` [4, K] is scratch memory. With
// t the distance from the mean and h half a bin, both in scales, a = e^-|t| and g = e^-h, a component gives an inner value
// sigmoid(t + h) - sigmoid(t - h) = a (1 - g^2) / ((a + g) (1 + a g)), in which nothing cancels.
static inline void log_probabilities(const Mixture& mixture, float* own, float* logs) {
    constexpr float HALF_BIN = 1.0f / 255;
    const int64_t K = mixture.K;
    float *shares = own, *halves = shares + K, *rates = halves + K, *means = rates + K;
    int64_t count = 0;  // of the components that matter, which come first
    float black = 0, white = 0;
    for (int64_t k = 0; k < K; k++) {
        const float weight = mixture.weights[k] / mixture.weighed.total;
        if (weight < NEGLIGIBLE) continue;
        const float mean = mixture.mean[k], scale = mixture.scale[k], half = HALF_BIN / scale;
        V x = splat(-half);
        x[1] = -((HALF_BIN - 1.0f - mean) / scale);  // black takes all below its bin, white all above
        x[2] = -((HALF_BIN - 1.0f + mean) / scale);
        const V e = exponential(x);
        const V outer = weight / (1.0f + e);
        black += outer[1], white += outer[2];
        shares[count] = weight * one_minus_exponential(splat(2 * half))[0];
        halves[count] = e[0], rates[count] = 1.0f / scale, means[count] = mean;
        count++;
    }
    for (int64_t i = 0; i < VALUES; i += W) {
        V value, sum{};
        UNROLL for (int l = 0; l < W; l++) value[l] = float(l);
        value = (value + float(i)) / 127.5f - 1.0f;
        for (int64_t k = 0; k < count; k++) {
            const V t = (value - means[k]) * rates[k];
            const V a = exponential(larger(t > 0.0f ? -t : t, splat(FARTHEST)));
            sum = sum + shares[k] * a / ((a + halves[k]) * (1.0f + a * halves[k]));
        }
        store(logs + i, sum);
    }
    logs[0] = black, logs[VALUES - 1] = white;
    for (int64_t i = 0; i < VALUES; i += W) store(logs + i, logarithm(larger(load(logs + i), splat(MIN_PROBABILITY))));
}

// Paints the `bytes` [C] of a guided image that are not known. Each is drawn by its first uniform from the 256 values, by
// the logarithms of their probabilities in the mixture with the class and in that without, mixed; and then changes the
// weights of the components of both. Returns 0, or NaN where a parameter is not finite.
static inline float draw_guided_pixel(const Shape& shape, const float* with, const float* without, float guidance,
                                      const Draw& draw, uint8_t* bytes, float* scratch) {
    const int64_t K = shape.components, C = shape.step_bytes, P = K * (1 + 2 * C + coefficients_of(shape));
    float *own = scratch + 2 * mixture_scratch(shape), *mixed = own + 4 * K, *logs = mixed + VALUES, *weights = logs + VALUES;
    Mixture of_class(shape, with, 1.0f, scratch), of_any(shape, without, 1.0f, scratch + mixture_scratch(shape));
    float seen[MAX_CHANNELS], failed = zero_if_finite(with, P) + zero_if_finite(without, P);
    for (int64_t c = 0; c < C; c++) {
        of_class.enter(c, seen);
        of_any.enter(c, seen);
        failed += zero_if_finite(of_class.mean, K) + zero_if_finite(of_any.mean, K);
        if (!draw.known[c]) {
            const Uniforms u = uniforms(draw.seed, draw.index, draw.position + c);
            log_probabilities(of_class, own, mixed);
            log_probabilities(of_any, own, logs);
            mix_logits(mixed, logs, guidance, mixed);
            bytes[c] = sample_categorical(mixed, u, draw.temperature, weights);
        }
        if (c + 1 == C) break;
        seen[c] = real_of(bytes[c]);
        of_class.add(bytes[c], seen[c]);
        of_any.add(bytes[c], seen[c]);
    }
    return failed;
}

}  // namespace ISA
