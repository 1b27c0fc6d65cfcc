// The interface that runner.cpp implements once for each instruction set; dispatch.cpp picks one of them.
#pragma once
#include "abi.h"

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "-ffast-math would change the bytes of images: compile without it"
#endif

// The bytes of an image's next steps, and the parameters of the distributions that they were drawn from.
struct Path {
    const float *parameters, *without;  // without: null, or of a guided image those of label 0
    const uint8_t* bytes;
    int64_t steps;
};

// What decides the bytes of a step that are not known.
struct Draw {
    int64_t seed, index, position;  // position: of the step's first byte
    float temperature;
    const uint8_t* known;  // [step_bytes]
};

struct Runner {
    virtual ~Runner() = default;
    // -1 where a chosen slot is none.
    virtual int64_t advance(const Slots&, const int64_t* chosen, int64_t count, int64_t passes, Ahead&) = 0;
    virtual void read(const Slots&, int64_t start, int64_t stop, double* bits, float* parameters, uint32_t* intervals) = 0;
    virtual void read_layers(const Slots&, int64_t start, int64_t stop, int64_t depth, float* outputs) = 0;
    virtual int64_t follow(const Path&, Draw, float guidance, uint8_t* drawn) = 0;
    virtual void copy_slots(const Slots&, const int64_t* sources, const int64_t* targets, int64_t count) = 0;
};

// Each throws std::invalid_argument if the tensors are not those the shape needs.
namespace amx { Runner* create(const Shape&, const Tensor*, int64_t count, int64_t weight_type, int64_t threads); }
namespace avx512vnni { Runner* create(const Shape&, const Tensor*, int64_t count, int64_t weight_type, int64_t threads); }
namespace avx512 { Runner* create(const Shape&, const Tensor*, int64_t count, int64_t weight_type, int64_t threads); }
namespace avxvnni { Runner* create(const Shape&, const Tensor*, int64_t count, int64_t weight_type, int64_t threads); }
namespace avx2 { Runner* create(const Shape&, const Tensor*, int64_t count, int64_t weight_type, int64_t threads); }
namespace portable { Runner* create(const Shape&, const Tensor*, int64_t count, int64_t weight_type, int64_t threads); }
namespace neon { Runner* create(const Shape&, const Tensor*, int64_t count, int64_t weight_type, int64_t threads); }
namespace wasm { Runner* create(const Shape&, const Tensor*, int64_t count, int64_t weight_type, int64_t threads); }
