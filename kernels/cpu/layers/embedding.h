// The input of a step that reads a byte: the value of the byte before the one to predict, and its place in the image. The
// class of an image, which every step reads.
#pragma once
#include "layers/weights.h"

namespace ISA {

// Writes x [D] for the byte at `position` of an image.
static inline void embed(const Weights& w, const uint8_t* image, int64_t position, float* x) {
    const Shape& shape = w.shape;
    const int64_t n = w.embedding_width;
    const auto add = [n](const float* from, float* to, bool replace) {
        for (int64_t i = 0; i < n; i++) to[i] = replace ? from[i] : to[i] + from[i];
    };

    // row 256 stands for a byte before the image
    add(&w.value[(position ? image[position - 1] : 256) * n], x, true);

    // the position is appended to the value (concat) or added to it
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

// Adds to x [D] the vector of an image's label.
static inline void add_class(const Weights& w, int64_t label, float* x) {
    const float* vector = &w.classes[label * w.width];
    for (int64_t i = 0; i < w.width; i++) x[i] += vector[i];
}

}  // namespace ISA
