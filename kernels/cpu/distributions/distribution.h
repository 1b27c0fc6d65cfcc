// Distribution of a step's bytes, categorical or a mixture of logistics: painting them, and their cost in bits.
#pragma once
#include "distributions/pixel_logistics.h"

namespace ISA {

// Number of parameters of a step.
static inline int64_t parameters_of(const Shape& shape) {
    return shape.predicts == CATEGORICAL ? VALUES
                                         : shape.components * (1 + 2 * shape.step_bytes + coefficients_of(shape));
}

// Floats of scratch memory that the functions below need.
static inline int64_t distribution_scratch(const Shape& shape) {
    return shape.predicts == CATEGORICAL ? 2 * VALUES : pixel_scratch(shape);
}

// Writes to bits [step_bytes] what `bytes` cost at temperature 1, each given the step's earlier ones.
static inline void write_bits(const Shape& shape, const float* parameters, const uint8_t* bytes, double* bits,
                              float* scratch) {
    if (shape.predicts == CATEGORICAL)
        bits[0] = categorical_bits(parameters, bytes[0], scratch);
    else  // without a draw it changes no byte, so that the cast is safe
        run_pixel(shape, parameters, 1.0f, nullptr, const_cast<uint8_t*>(bytes), bits, scratch);
}

// Paints the `bytes` [step_bytes] of a guided image that are not known, from the parameters with its class and those
// without. Returns 0, or NaN where what they are drawn from is not finite.
static inline float draw_guided(const Shape& shape, const float* with, const float* without, float guidance, const Draw& draw,
                                uint8_t* bytes, float* scratch) {
    if (shape.predicts == PIXEL_LOGISTICS) return draw_guided_pixel(shape, with, without, guidance, draw, bytes, scratch);
    float* mixed = scratch + VALUES;
    mix_logits(with, without, guidance, mixed);
    if (!draw.known[0]) {
        const Uniforms u = uniforms(draw.seed, draw.index, draw.position);
        bytes[0] = sample_categorical(mixed, u, draw.temperature, scratch);
    }
    return zero_if_finite(mixed, VALUES);
}

// Paints the `bytes` [step_bytes] that are not known.
static inline void draw_step(const Shape& shape, const float* parameters, const Draw& draw, uint8_t* bytes, float* scratch) {
    if (shape.predicts == PIXEL_LOGISTICS) {
        run_pixel(shape, parameters, draw.temperature, &draw, bytes, nullptr, scratch);
    } else if (!draw.known[0]) {
        const Uniforms u = uniforms(draw.seed, draw.index, draw.position);
        bytes[0] = sample_categorical(parameters, u, draw.temperature, scratch);
    }
}

// Paints the `bytes` [step_bytes] that are not known, and writes the cost of all of them to `bits`.
static inline void paint_step(const Shape& shape, const float* parameters, const Draw& draw, uint8_t* bytes, double* bits,
                              float* scratch) {
    // at temperature 1, what is painted and what it costs come of the same pass
    if (shape.predicts == PIXEL_LOGISTICS && draw.temperature == 1.0f)
        return run_pixel(shape, parameters, 1.0f, &draw, bytes, bits, scratch);
    draw_step(shape, parameters, draw, bytes, scratch);
    write_bits(shape, parameters, bytes, bits, scratch);
}

}  // namespace ISA
