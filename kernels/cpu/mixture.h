// The mixture of discretised logistics of kernels/mixture for one byte: anchored means, the draw, and the cost in bits.
#pragma once
#include <cmath>
#include <cstdint>

#include "abi.h"
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
        const float share = 1 / (1 + std::exp(-choice[4])), seen = float(image[position - 1]) / 127.5f - 1.0f;
        for (int i = 0; i < 4; i++) values[i] += share * (seen - before[i]);
    }
    const float top = std::fmax(std::fmax(choice[0], choice[1]), std::fmax(choice[2], choice[3]));
    float total = 0, sum = 0;
    for (int i = 0; i < 4; i++) {
        const float weight = std::exp(choice[i] - top);
        total += weight;
        sum += weight * values[i];
    }
    for (int64_t i = K; i < 2 * K; i++) parameters[i] += sum / total;
}

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
    float total = 0;
    for (int64_t i = 0; i < K; i++) total += std::exp((parameters[i] - top) / temperature);
    const float target = u.first * total;
    int64_t picked = 0;
    for (float sum = 0; picked < K - 1; picked++) {
        sum += std::exp((parameters[picked] - top) / temperature);
        if (target < sum) break;
    }
    const float scale = scale_of(parameters[2 * K + picked], exp_scale) * temperature;
    const float value = parameters[K + picked] + scale * (std::log(u.second) - std::log1p(-u.second));
    const float byte = std::nearbyint((value + 1.0f) * 127.5f);
    return byte >= 255.0f ? 255 : byte > 0.0f ? uint8_t(byte) : 0;
}

// Bits that the byte `value` costs at temperature 1; `logs` [K] is scratch memory.
static inline double bits_of(const float* parameters, int64_t K, uint8_t value, bool exp_scale, float* logs) {
    const float half_bin = 1.0f / 255, x = float(value) / 127.5f - 1.0f;
    float top = parameters[0];
    for (int64_t i = 1; i < K; i++) top = std::fmax(top, parameters[i]);
    float total = 0, largest = -INFINITY;
    for (int64_t i = 0; i < K; i++) total += std::exp(parameters[i] - top);
    // log(sigmoid(a) - sigmoid(b)) = log sigmoid(a) + log sigmoid(-b) + log(1 - e^(b - a)), exact far from the mean too;
    // the first and the last byte take all that lies beyond them
    for (int64_t i = 0; i < K; i++) {
        const float scale = scale_of(parameters[2 * K + i], exp_scale), centred = x - parameters[K + i];
        float log = parameters[i] - top;
        if (value != 255) log += log_sigmoid((centred + half_bin) / scale);
        if (value != 0) log += log_sigmoid((half_bin - centred) / scale);
        if (value != 0 && value != 255) log += std::log(-std::expm1(-2 * half_bin / scale));
        logs[i] = log;
        largest = std::fmax(largest, log);
    }
    if (largest == -INFINITY) return INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < K; i++) sum += std::exp(logs[i] - largest);
    return -(double(largest) + std::log(sum) - std::log(total)) * 1.4426950408889634;
}

}  // namespace ISA
