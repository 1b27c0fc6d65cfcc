// The causal depthwise convolution, as in kernels/causal_conv/reference.py: numbers of painted pixels around, each with a
// weight, added to those of a pixel.
#pragma once
#include <algorithm>
#include <cstdint>

#include "abi.h"
#include "arithmetic/vector.h"

namespace ISA {

struct Offset {
    int64_t up, left;
};
constexpr Offset OFFSETS[] = {{0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, -1}, {1, 2}, {1, -2}};
constexpr int64_t NEIGHBOURS = sizeof OFFSETS / sizeof *OFFSETS;
constexpr int64_t BEYOND = 3;  // pixels that are kept beyond a row

// Where the numbers of a slot's pixels are kept, of one convolution.
struct ConvState {
    float* data;  // [R, D]
    int64_t pixels, width;

    static ConvState of(const Shape& shape, const Slots& slots, int64_t conv, int64_t slot) {
        const int64_t R = shape.width + BEYOND, D = shape.heads * shape.value_width;
        return {slots.conv_state + (conv * slots.count + slot) * R * D, R, D};
    }
    float* at(int64_t pixel) const { return data + pixel % pixels * width; }
};

// Writes x [D] of a pixel with its neighbours to out [D]: those of the last `before` pixels are in the rows before x, which are
// `stride` apart, the others are kept.
static inline void convolve(const float* x, int64_t stride, int64_t before, const ConvState& state, int64_t pixel,
                            int64_t image_width, const float* conv_weight, float* out) {
    const float *near[NEIGHBOURS], *weight[NEIGHBOURS];
    int count = 0;
    for (int64_t k = 0; k < NEIGHBOURS; k++) {
        const int64_t row = pixel / image_width - OFFSETS[k].up, column = pixel % image_width - OFFSETS[k].left;
        if (row < 0 || column < 0 || column >= image_width) continue;
        const int64_t distance = OFFSETS[k].up * image_width + OFFSETS[k].left;
        near[count] = distance <= before ? x - distance * stride : state.at(pixel - distance);
        weight[count++] = conv_weight + k * state.width;
    }
    for (int64_t i = 0; i < state.width; i += W) {
        const int64_t lanes = std::min<int64_t>(W, state.width - i);
        V sum = load_partial(x + i, lanes);
        for (int k = 0; k < count; k++) sum = fma(load_partial(near[k] + i, lanes), load_partial(weight[k] + i, lanes), sum);
        store_partial(out + i, sum, lanes);
    }
}

}  // namespace ISA
