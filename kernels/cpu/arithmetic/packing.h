// A matrix [outer, inner] laid out for the products: panels of 32 columns (of W^T), each read from front to back, the
// last one padded with zeros. int8 keeps four neighbouring rows of a column together, with a scale for every column.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "arithmetic/vector.h"

namespace ISA {

constexpr int64_t PANEL = 32;

static inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// Memory aligned to cache lines, zero at first.
template <class T>
struct Array {
    std::unique_ptr<char[]> memory;
    T* data = nullptr;
    explicit Array(int64_t count = 0) : memory(new char[sizeof(T) * count + 64]()) {
        data = reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory.get()) + 63) / 64 * 64);
    }
};

// The byte that stands for zero among activations in 8 bits. VNNI's instruction takes unsigned ones: they are shifted by
// 128, and the products corrected for it. All others take signed ones.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
constexpr int INT8_ZERO = 128;
#else
constexpr int INT8_ZERO = 0;
#endif

// Rows of a matrix are padded with zeros to a multiple: of four weights, or of the 64 of a tile.
#if defined(__AMX_INT8__)
constexpr int64_t PADDED = 64;
#else
constexpr int64_t PADDED = 4;
#endif

enum WeightType { FLOAT32, FLOAT16, INT8 };  // WEIGHT_TYPES of bindings.py

struct PackedMatrix {
    WeightType type = FLOAT32;
    int64_t inner = 0, panels = 0;
    Array<char> numbers;
    Array<float> bias, scale;    // [32 panels]
    Array<int32_t> correction;   // [32 panels], INT8_ZERO times the sum of a column

    int64_t width() const { return panels * PANEL; }
    template <class T>
    const T* panel(int64_t i) const {
        return reinterpret_cast<const T*>(numbers.data) + i * PANEL * round_up(inner, PADDED);
    }
};

static inline bool are_float16(const float* x, int64_t count) {
    return std::all_of(x, x + count, [](float each) { return half_to_float(float_to_half(each)) == each; });
}

// Puts numbers in float16 in pairs, each of a vector and the next one; or into float32, where one is too large for that.
static inline void pair_up(PackedMatrix& p) {
    const int64_t count = p.width() * round_up(p.inner, PADDED);
    Array<char> converted(4 * count);
    float* const numbers = reinterpret_cast<float*>(converted.data);
    for (int64_t i = 0; i < count; i++) numbers[i] = half_to_float(p.panel<half>(0)[i]);
    if (!std::all_of(numbers, numbers + count, [](float x) { return std::fabs(x) < PAIR_LIMIT; })) {
        p.type = FLOAT32;
        p.numbers = std::move(converted);
        return;
    }
    for (int64_t i = 0; i < count; i += 2 * W)
        for (int64_t lane = 0; lane < W; lane++) {
            const uint32_t pair = pack_pair(numbers[i + lane], numbers[i + W + lane]);
            memcpy(p.numbers.data + 2 * i + 4 * lane, &pair, 4);
        }
}

// Packs weights [., inner] and bias [.]: row rows[j] becomes column j, and a column stays zero where rows[j] is -1.
static inline PackedMatrix pack(const float* weights, const float* bias, int64_t inner,
                                const std::vector<int64_t>& rows, WeightType type) {
    PackedMatrix p;
    p.type = type;
    p.inner = inner;
    p.panels = round_up(int64_t(rows.size()), PANEL) / PANEL;
    const int64_t padded_inner = round_up(inner, PADDED), size = type == FLOAT32 ? 4 : type == FLOAT16 ? 2 : 1;
    p.numbers = Array<char>(p.width() * padded_inner * size);
    p.bias = Array<float>(p.width());
    p.scale = Array<float>(p.width());
    p.correction = Array<int32_t>(p.width());
    for (int64_t j = 0; j < int64_t(rows.size()); j++) {
        if (rows[j] < 0) continue;
        const float* row = weights + rows[j] * inner;
        p.bias.data[j] = bias[rows[j]];
        float largest = 0;
        for (int64_t k = 0; type == INT8 && k < inner; k++) largest = std::fmax(largest, std::fabs(row[k]));
        p.scale.data[j] = largest / 127;
        const int64_t panel = j / PANEL * PANEL * padded_inner, column = j % PANEL;
        for (int64_t k = 0; k < inner; k++) {
            if (type == FLOAT32) {
                reinterpret_cast<float*>(p.numbers.data)[panel + k * PANEL + column] = row[k];
            } else if (type == FLOAT16) {
                reinterpret_cast<half*>(p.numbers.data)[panel + k * PANEL + column] = float_to_half(row[k]);
            } else {
                const float share = row[k] / largest;  // NaN among zeros, and where a weight is not finite
                const int8_t q = int8_t(share == share ? nearest(share * 127) : 0);
                reinterpret_cast<int8_t*>(p.numbers.data)[panel + k / 4 * 4 * PANEL + column * 4 + k % 4] = q;
                p.correction.data[j] += INT8_ZERO * q;
            }
        }
    }
    if (IN_PAIRS && type == FLOAT16) pair_up(p);
    return p;
}

}  // namespace ISA
