// The mixture of discretised logistics of kernels/mixture/reference.py, for one byte: its draw and its cost.
#pragma once
#include <cmath>
#include <cstdint>

#include "philox.h"

namespace WAY {

// log sigmoid(x)
static inline float log_sigmoid(float x) { return std::fmin(x, 0.0f) - std::log1p(std::exp(-std::fabs(x))); }

static inline float scale_of(float raw, bool exp_scale) {
    if (exp_scale) return std::exp(std::fmax(raw, -7.0f));
    return (raw > 0 ? raw : std::expm1(raw)) + 1.0001f;
}

// One byte from parameters [3K]: logits, means, raw scales. The first uniform picks the component, the second
// inverts its logistic; temperature divides the logits and multiplies the scales.
static inline uint8_t sample(const float* parameters, int64_t K, Uniforms u, float temperature, bool exp_scale) {
    float top = parameters[0];
    for (int64_t i = 1; i < K; i++) top = std::fmax(top, parameters[i]);
    float all = 0;
    for (int64_t i = 0; i < K; i++) all += std::exp((parameters[i] - top) / temperature);
    const float wanted = u.first * all;
    int64_t picked = 0;
    for (float sum = 0; picked < K - 1; picked++) {
        sum += std::exp((parameters[picked] - top) / temperature);
        if (wanted < sum) break;
    }
    const float scale = scale_of(parameters[2 * K + picked], exp_scale) * temperature;
    const float value = parameters[K + picked] + scale * (std::log(u.second) - std::log1p(-u.second));
    const float byte = std::nearbyint((value + 1.0f) * 127.5f);
    return byte >= 255.0f ? 255 : byte > 0.0f ? uint8_t(byte) : 0;
}

// Bits that the byte `value` costs at temperature 1.
static inline double bits_of(const float* parameters, int64_t K, uint8_t value, bool exp_scale) {
    const float half_bin = 1.0f / 255, x = float(value) / 127.5f - 1.0f;
    float top = parameters[0];
    for (int64_t i = 1; i < K; i++) top = std::fmax(top, parameters[i]);
    float all = 0, most = -INFINITY, logs[64];
    for (int64_t i = 0; i < K; i++) all += std::exp(parameters[i] - top);
    double sum = 0;
    for (int64_t begin = 0; begin < K; begin += 64) {  // any K in a fixed memory: rescale the sum as its top rises
        const int64_t count = K - begin < 64 ? K - begin : 64;
        float best = -INFINITY;
        for (int64_t j = 0; j < count; j++) {
            const int64_t i = begin + j;
            const float scale = scale_of(parameters[2 * K + i], exp_scale), centred = x - parameters[K + i];
            float log = parameters[i] - top;
            if (value != 255) log += log_sigmoid((centred + half_bin) / scale);
            if (value != 0) log += log_sigmoid((half_bin - centred) / scale);
            if (value != 0 && value != 255) log += std::log(-std::expm1(-2 * half_bin / scale));
            logs[j] = log;
            best = std::fmax(best, log);
        }
        if (best == -INFINITY) continue;
        if (best > most) {
            sum *= std::exp(most - best);
            most = best;
        }
        for (int64_t j = 0; j < count; j++) sum += std::exp(logs[j] - most);
    }
    return -(double(most) + std::log(sum) - std::log(all)) * 1.4426950408889634;
}

}  // namespace WAY
