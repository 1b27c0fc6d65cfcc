// The embedding of one byte to predict: values of the bytes before it, and its place in the image.
#pragma once
#include "weights.h"

namespace ISA {

// Writes x [D] for the byte at `position` of an image.
static inline void embed(const Weights& w, const uint8_t* image, int64_t position, float* x) {
    const Shape& shape = w.shape;
    const int64_t n = w.embedding_width;
    const auto add = [n](const float* from, float* to, bool replace) {
        for (int64_t i = 0; i < n; i++) to[i] = replace ? from[i] : to[i] + from[i];
    };

    // the sum of what each table says of the byte at its offset; row 256 stands for bytes before the image
    for (int64_t t = 0; t < shape.tables; t++) {
        const int64_t at = position - w.offsets[t];
        add(&w.value[(t * w.value_rows + (at < 0 ? 256 : image[at])) * n], x, t == 0);
    }

    // the position stands beside the values (concat) or is added to them
    float* place = shape.concat ? x + n : x;
    if (shape.axial) {
        const int64_t pixel = position / shape.channels;
        add(&w.row[pixel / shape.width * n], place, shape.concat);
        add(&w.column[pixel % shape.width * n], place, false);
        if (shape.channels > 1) add(&w.channel[position % shape.channels * n], place, false);
    } else {
        add(&w.waves[(position - shape.first) * n], place, shape.concat);
    }
}

}  // namespace ISA
