// The plain C interface of the native step: what Python hands over, and the functions it calls.
// kernels/cpu/bindings.py mirrors these structs field by field.
#pragma once
#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

// Sizes and choices of a network; letters as everywhere: L layers, H heads, C key width, M value width, K components.
struct Shape {
    int64_t height, width, channels, layers, heads, key_width, value_width, feed_forward, components;
    int64_t tables;          // value tables: the previous byte's, and one for every further neighbour
    const int64_t* offsets;  // [tables], how far back each of them looks
    int64_t first;           // 1 where no start token is, else 0
    int64_t pre_norm, gelu, concat, axial, exp_scale, anchor_numbers;
};

// How numbers are held: weights as float32 (0), float16 (1) or int8 (2); s at rest as float32 (0) or float16 (1).
struct Precision {
    int64_t weights, state;
};

// Images in flight, one a row; B rows.
struct Seats {
    int64_t rows;
    void* s;            // [L, B, H, C, M]
    float* z;           // [L, B, H, C]
    int64_t* position;  // [B]; N where nobody is, or an image is done
    uint8_t* images;    // [B, N]
    const uint8_t* known;      // [B, N], 0 or 1
    double* bits;              // [B]
    const int64_t *seed, *index;  // [B]
    const float* temperature;     // [B]
};

// Which of the compiled ways this processor can run, best first, separated by spaces.
const char* scanline_ways();

// A network ready to run, or null where `way` is none of scanline_ways(). `tensors` are float32, in the order of
// kernels/cpu/bindings.py; they are copied. scanline_destroy gives everything back.
void* scanline_create(const Shape*, const float* const* tensors, Precision, int64_t threads, const char* way);
void scanline_destroy(void* network);

// Paints up to `steps` bytes of every row whose position is below N.
void scanline_advance(void* network, const Seats*, int64_t steps);

// Runs the known bytes start .. stop - 1 of all rows, whose states stand at `start`: bits [B, stop - start].
// Where `parameters` is not null it gets those of the mixture, [B, stop - start, 3K].
void scanline_read(void* network, const Seats*, int64_t start, int64_t stop, double* bits, float* parameters);
}
#pragma GCC visibility pop
