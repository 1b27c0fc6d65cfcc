// A byte's distribution as whole numbers, and the arithmetic decoder, bit for bit those of kernels/codec: an image with a
// code is painted from it in place of random numbers. Of floating point only one product with each parameter.
#pragma once
#include <algorithm>
#include <cstdint>

#include "distributions/distribution.h"

namespace ISA {

constexpr int32_t BIT = 1 << 16, ONE = 1 << 30, SURE = 1 << 26, SIGMOID_BITS = 28;
constexpr int64_t PRECISION = 24, TOTAL = 1 << PRECISION;
constexpr int64_t MIN_RANGE = int64_t(1) << 40, MAX_RANGE = int64_t(1) << 48;

// kernels/codec/tables.py. Made when a network is: no code of this processor may run while the library is loaded.
struct CodeTables {
    int32_t exp2[257], log2[257], sigmoid[64 * SIGMOID_BITS + 1];

    CodeTables() {
        for (int64_t j = 0; j < 257; j++) exp2[j] = int32_t(power(j) >> 32), log2[j] = j < 256 ? logarithm(j) : BIT;
        for (int64_t j = 0; j <= 64 * SIGMOID_BITS; j++)
            sigmoid[j] = int32_t(power(4 * j) / ((UNIT + power(4 * j)) / uint64_t(SURE)));
    }

  private:
    static constexpr uint64_t UNIT = uint64_t(1) << 62;

    static uint64_t product(uint64_t a, uint64_t b) { return uint64_t((unsigned __int128)(a) * b >> 62); }

    static uint64_t power(int64_t j) {
        constexpr uint64_t ROOTS[] = {0x2D413CCCFE779921, 0x35D13F32B5A75ABD, 0x3AB031B9F7490E4B, 0x3D495F454921B30B,
                                      0x3EA0ECB6DC8A80CE, 0x3F4F83033D21B05D, 0x3FA784571EE3E212, 0x3FD3B2D65447B229};
        uint64_t power = UNIT;
        for (int i = 0; i < 8; i++)
            if (j >> (7 - i) & 1) power = product(power, ROOTS[i]);
        return power >> (j >> 8);
    }

    static int32_t logarithm(int64_t j) {
        uint64_t number = uint64_t(256 + j) << 54;
        int32_t digits = 0;
        for (int i = 0; i < 16; i++) {
            number = product(number, number);
            digits = digits << 1 | int32_t(number >> 63);
            number >>= number >> 63;
        }
        return digits;
    }
};

// The decoder of an image's code, as kernels/codec/coder.py has it.
struct CodeReader {
    const uint8_t* code;
    const int64_t size;
    int64_t &at, &value, &range;

    int64_t target() const { return std::min(value / (range >> PRECISION), TOTAL - 1); }

    void take(int64_t start, int64_t width) {
        const int64_t unit = range >> PRECISION;
        range = unit * width;
        value = std::min(value - unit * start, range - 1);
        for (; range < MIN_RANGE; range <<= 8, at++) value = value << 8 | (at < size ? code[at] : 0);
    }
};

// Numbers of scratch memory that a Codec needs.
static inline int64_t codec_scratch(const Shape& shape) {
    const int64_t K = shape.components, C = shape.step_bytes;
    return shape.predicts == CATEGORICAL ? VALUES + 1 : K * (3 + 2 * C + coefficients_of(shape));
}

class Codec {
    const Shape& shape;
    const CodeTables& tables;
    int64_t* const memory;

  public:
    Codec(const Shape& shape, const CodeTables& tables, int64_t* scratch) : shape(shape), tables(tables), memory(scratch) {}

    // Writes start and width of the bytes of a step to `intervals` [C, 2].
    void write_intervals(const float* parameters, const uint8_t* bytes, uint32_t* intervals) const {
        for_each_channel(parameters, [&](int64_t c, const auto& start_of) {
            const int64_t start = start_of(bytes[c]);
            intervals[2 * c] = uint32_t(start), intervals[2 * c + 1] = uint32_t(start_of(bytes[c] + 1) - start);
            return int64_t(bytes[c]);
        });
    }

    // Paints the bytes of a step from a code.
    void decode(const float* parameters, CodeReader reader, uint8_t* bytes) const {
        for_each_channel(parameters, [&](int64_t c, const auto& start_of) {
            const int64_t target = reader.target();
            int64_t value = 0, start = 0, stop = TOTAL;
            for (int64_t step = VALUES / 2; step; step /= 2) {
                const int64_t middle = start_of(value + step);
                if (middle <= target)
                    value += step, start = middle;
                else
                    stop = middle;
            }
            reader.take(start, stop - start);
            bytes[c] = uint8_t(value);
            return value;
        });
    }

  private:
    static constexpr int32_t MAX_VALUE = 1 << 26, FARTHEST = 1 << 23, MAX_FACTOR = 1 << 20, BYTE = 1 << 12, CENTRE = 522240;
    static constexpr float BITS_OF_E_WHOLE = 94548;
    static constexpr int64_t RATE = 12441254689, MAX_RATE = 13011448;
    static constexpr int32_t FLOOR = 661836, MIN_SCALE = 105;

    static int32_t whole(float parameter, float factor) {
        float product = parameter * factor;
        product = product > float(-MAX_VALUE) ? product : float(-MAX_VALUE);
        return int32_t(product < float(MAX_VALUE) ? product : float(MAX_VALUE));
    }

    int32_t exp2(int64_t bits) const {
        const int32_t *entry = tables.exp2 + (bits >> 8 & 255), fraction = int32_t(bits & 255);
        return (entry[0] + ((entry[1] - entry[0]) * fraction >> 8)) >> std::min<int64_t>(bits >> 16, 31);
    }

    int64_t weight(int64_t below) const { return (int64_t(exp2(below)) + 512) >> 10; }

    static int64_t between(const int32_t* entry, int64_t fraction, int places) {
        return entry[0] + ((entry[1] - entry[0]) * fraction >> places);
    }

    int64_t log2(int64_t number) const {
        const int places = 63 - __builtin_clzll(uint64_t(number));
        const int64_t fraction = (number << (30 - places)) - ONE;
        return (int64_t(places) << 16) + between(tables.log2 + (fraction >> 22), (fraction & ((1 << 22) - 1)) >> 6, 16);
    }

    int64_t log2_sigmoid(int64_t bits) const {
        const int64_t power = exp2(bits < 0 ? -bits : bits), index = std::min<int64_t>(power >> 22, 255);
        return std::min<int64_t>(bits, 0) - between(tables.log2 + index, (power - (index << 22)) >> 6, 16);
    }

    int64_t sigmoid(int64_t bits) const {
        const int64_t away = std::min<int64_t>(bits < 0 ? -bits : bits, SIGMOID_BITS * BIT - 1);
        const int64_t tail = between(tables.sigmoid + (away >> 10), away & 1023, 10);
        return bits < 0 ? tail : SURE - tail;
    }

    static int64_t start(int64_t cumulative, int64_t value) { return cumulative - (cumulative >> 16) + value; }

    // Writes how many bits each of n logits is below the largest.
    static void write_below(const float* logits, int64_t n, int64_t* below) {
        int32_t top = -MAX_VALUE;
        for (int64_t i = 0; i < n; i++) {
            const int32_t bits = whole(logits[i], BITS_OF_E_WHOLE);
            below[i] = bits;
            top = std::max(top, bits);
        }
        for (int64_t i = 0; i < n; i++) below[i] = top - below[i];
    }

    int64_t rate(float raw) const {
        const int32_t bits = whole(raw, BITS_OF_E_WHOLE);
        if (shape.exp_scale) return (exp2(std::max(bits + FLOOR, 0)) >> 6) * MAX_RATE >> 24;
        return RATE / ((exp2(std::max(-bits, 0)) >> 10) + std::max(whole(raw, 1 << 20), 0) + MIN_SCALE);
    }

    // Calls choose(c, start_of) for each byte of a step, which returns the byte; start_of(value) is where the interval of a
    // value begins, for values from 0 to 256.
    template <class Choose>
    void for_each_channel(const float* parameters, const Choose& choose) const {
        if (shape.predicts == CATEGORICAL)
            for_one_byte(parameters, choose);
        else
            for_each_pixel_channel(parameters, choose);
    }

    template <class Choose>
    void for_one_byte(const float* logits, const Choose& choose) const {
        int64_t* const before = memory;  // [257], of weights
        write_below(logits, VALUES, before);
        int64_t total = 0;
        for (int64_t i = 0; i < VALUES; i++) {
            const int64_t own = weight(before[i]);
            before[i] = total;
            total += own;
        }
        before[VALUES] = total;
        choose(0, [&](int64_t value) { return start(before[value] * TOTAL / total, value); });
    }

    template <class Choose>
    void for_each_pixel_channel(const float* parameters, const Choose& choose) const {
        const int64_t K = shape.components, C = shape.step_bytes, F = coefficients_of(shape);
        // All parameters become whole numbers first, each by one product: no later step can round differently.
        int64_t *below = memory, *weights = below + K, *moved = weights + K, *means = moved + K, *rates = means + K * C;
        int64_t* const factors = rates + K * C;
        write_below(parameters, K, below);
        parameters += K;
        for (int64_t i = 0; i < K * C; i++)
            means[i] = std::clamp<int32_t>(whole(parameters[i], CENTRE), -FARTHEST, FARTHEST) + CENTRE;
        for (int64_t i = 0; i < K * C; i++) rates[i] = rate(parameters[K * C + i]);
        for (int64_t i = 0; i < K * F; i++)
            factors[i] = std::clamp(whole(parameters[2 * K * C + i], BYTE), -MAX_FACTOR, MAX_FACTOR);
        int64_t values[MAX_CHANNELS];
        for (int64_t c = 0; c < C; c++) {
            // The means move with the errors of the earlier channels, and the weights with what their bytes said of each
            // component: both depend on `choose`, so the channels are in order.
            int64_t total = 0;
            for (int64_t k = 0; k < K; k++) {
                int64_t mean = means[k * C + c];
                for (int64_t e = 0; e < c; e++)
                    mean += factors[k * F + c * (c - 1) / 2 + e] * (values[e] * BYTE - means[k * C + e]) >> 12;
                moved[k] = std::clamp<int64_t>(mean, -FARTHEST, FARTHEST);
                total += weights[k] = weight(below[k]);
            }
            const auto edge = [&](int64_t value, int64_t k) {
                return (value * BYTE - BYTE / 2 - moved[k]) * rates[k * C + c] >> 16;
            };
            values[c] = choose(c, [&](int64_t value) {
                if (value == 0) return int64_t(0);
                if (value == VALUES) return TOTAL;
                int64_t sum = 0;
                for (int64_t k = 0; k < K; k++) sum += weights[k] * sigmoid(edge(value, k));
                return start(sum / (total * (SURE / TOTAL)), value);
            });
            // What the byte says of each component, in bits; without the smallest, it is how many below the largest again.
            if (c + 1 == C) return;
            int64_t least = INT64_MAX;
            for (int64_t k = 0; k < K; k++) {
                const bool is_black = values[c] == 0, is_white = values[c] == VALUES - 1;
                if (!is_white) below[k] -= log2_sigmoid(edge(values[c] + 1, k));
                if (!is_black) below[k] -= log2_sigmoid(-edge(values[c], k));
                if (!is_black && !is_white)
                    below[k] -= log2(std::max<int64_t>(ONE - exp2(rates[k * C + c] >> 4), 1)) - 30 * BIT;
                least = std::min(least, below[k]);
            }
            for (int64_t k = 0; k < K; k++) below[k] -= least;
        }
    }
};

}  // namespace ISA
