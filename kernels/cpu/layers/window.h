// The input of a step that reads a window of painted pixels: the numbers of kernels/window/reference.py, in its order, and
// the pixel's place in the image. Bytes of the pixel itself and of those after it are not read.
#pragma once
#include <algorithm>

#include "layers/weights.h"

namespace ISA {

// Copies to `to` the bytes of the pixels `columns` to either side in the `rows` rows above and `columns` to the left of
// (y, x), in raster order; those beyond the image's border are `outside`. Returns their number.
static inline int64_t copy_window(const Shape& shape, const uint8_t* image, int64_t y, int64_t x, int64_t rows,
                                  int64_t columns, uint8_t* to) {
    const int64_t C = shape.channels;
    const uint8_t* const begin = to;
    const auto fill = [&](int64_t pixels) {
        memset(to, int(shape.outside), pixels * C);
        to += pixels * C;
    };
    // from column x - columns to stop - 1; clipped once a row, so that no byte needs a test of its own
    const auto copy_row = [&](int64_t up, int64_t stop) {
        if (up > y) return fill(stop - x + columns);
        const int64_t first = std::max<int64_t>(x - columns, 0), last = std::min(stop, shape.width);
        fill(first - (x - columns));
        memcpy(to, image + ((y - up) * shape.width + first) * C, (last - first) * C);
        to += (last - first) * C;
        fill(stop - last);
    };
    for (int64_t up = rows; up > 0; up--) copy_row(up, x + columns + 1);
    copy_row(0, x);
    return to - begin;
}

// Writes the references [C] of the pixel (y, x): the mean of its left and upper neighbours, or the one that exists.
static inline void read_references(const Shape& shape, const uint8_t* image, int64_t y, int64_t x, float* to) {
    const int64_t C = shape.channels, pixel = y * shape.width + x;
    for (int64_t c = 0; c < C; c++) {
        const float above = float(y ? image[(pixel - shape.width) * C + c] : shape.outside) / 127.5f - 1.0f;
        const float left = x ? float(image[(pixel - 1) * C + c]) / 127.5f - 1.0f : above;
        to[c] = x && y ? (above + left) / 2 : left;
    }
}

// Writes the inputs of a pixel. `bytes` is scratch memory of `window_bytes` numbers and a vector more.
static inline void read_window(const Weights& w, const uint8_t* image, int64_t pixel, uint8_t* bytes, float* inputs) {
    const Shape& shape = w.shape;
    const int64_t C = shape.channels, y = pixel / shape.width, x = pixel % shape.width;
    const int64_t values = copy_window(shape, image, y, x, shape.window_rows, shape.window_columns, bytes);

    // the references repeated, so that a whole vector of them can be loaded from any channel on
    float references[MAX_CHANNELS + W] = {};
    if (shape.centred) {
        read_references(shape, image, y, x, references);
        for (int64_t i = C; i < MAX_CHANNELS + W; i++) references[i] = references[i - C];
        memcpy(inputs + values, references, 4 * C);
    }
    for (int64_t i = 0; i < values; i += W) {
        const V value = load_bytes(bytes + i) / 127.5f - 1.0f;
        store_partial(inputs + i, value - load(references + i % C), values - i);
    }

    if (!shape.waves) return;
    const int64_t near = copy_window(shape, image, y, x, shape.wave_rows, shape.wave_columns, bytes);
    float* to = inputs + w.linear_inputs;
    for (int64_t i = 0; i < near; i++, to += 2 * shape.waves)
        memcpy(to, &w.wave_table[bytes[i] * 2 * shape.waves], 4 * 2 * shape.waves);
}

// Writes the place [D] of a pixel.
static inline void read_place(const Weights& w, int64_t pixel, float* x) {
    const float* row = &w.row[pixel / w.shape.width * w.width];
    const float* column = &w.column[pixel % w.shape.width * w.width];
    for (int64_t i = 0; i < w.width; i++) x[i] = row[i] + column[i];
}

}  // namespace ISA
