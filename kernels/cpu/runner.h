// What every instruction set's way of the native step offers; dispatch.cpp picks one.
#pragma once
#include "abi.h"

struct Native {
    virtual ~Native() = default;
    virtual void advance(const Seats&, int64_t steps) = 0;
    virtual void read(const Seats&, int64_t start, int64_t stop, double* bits, float* parameters) = 0;
};

namespace avx512vnni { Native* create(const Shape&, const float* const*, Precision, int64_t threads); }
namespace avx512 { Native* create(const Shape&, const float* const*, Precision, int64_t threads); }
namespace avx2 { Native* create(const Shape&, const float* const*, Precision, int64_t threads); }
namespace portable { Native* create(const Shape&, const float* const*, Precision, int64_t threads); }
