// x W^T + b for a few rows of x. Every number of the result is one chain of fused multiply-adds over k = 0, 1, 2, ...,
// whatever the number of rows, so that an image's arithmetic cannot depend on what else is in the batch; int8 sums are
// whole numbers. Rows and columns may be divided in any way, k never.
#pragma once
#include <algorithm>

#include "arithmetic/elementwise.h"
#include "arithmetic/int8.h"
#include "arithmetic/packing.h"

namespace ISA {

constexpr int VECTORS = PANEL / W;  // of one row of a panel
#if defined(__AVX512F__)
constexpr int MAX_BLOCK_ROWS = 7;  // by two panels: 28 of 32 registers hold sums, and 11 loads feed 28 multiply-adds
constexpr int SUM_REGISTERS = 28;
#elif defined(__AVX2__)
constexpr int MAX_BLOCK_ROWS = 3;  // 12 of 16
constexpr int SUM_REGISTERS = 12;
#elif defined(__ARM_NEON)
constexpr int MAX_BLOCK_ROWS = 2;  // 16 of 32: three rows would leave too few for a row of a panel
constexpr int SUM_REGISTERS = 16;
#else
constexpr int MAX_BLOCK_ROWS = 2;
constexpr int SUM_REGISTERS = 8;
#endif

enum Activation { NONE, RELU, GELU };

// What happens to a sum before it is stored: bias, activation, addition to a residual.
struct Epilogue {
    Activation activation = NONE;
    const float* residual = nullptr;
    int64_t residual_stride = 0;
    float* out = nullptr;
    int64_t out_stride = 0;

    inline void operator()(int64_t row, int64_t column, V v, const PackedMatrix& w) const {
        v = v + load(w.bias.data + column);
        if (activation == GELU) v = gelu(v);
        if (activation == RELU) v = relu(v);
        if (residual) v = load(residual + row * residual_stride + column) + v;
        store(out + row * out_stride + column, v);
    }
};

// Rows of x: float32, and for a product with int8 weights also in 8 bits with a scale for each row.
struct Input {
    const float* numbers = nullptr;
    int64_t stride = 0;
    const uint8_t* bytes = nullptr;  // of quantise()
    int64_t byte_stride = 0;
    const float* scale = nullptr;
};

// R rows x P panels, whose sums stay in registers. Every weight is loaded once for all R rows.
template <class Weight, int R, int P>
static void float_block(const Input& x, const PackedMatrix& w, const Weight* weights, int64_t row, int64_t panel,
                        const Epilogue& epilogue) {
    const int64_t panel_size = PANEL * round_up(w.inner, 4);
    const float* rows = x.numbers + row * x.stride;
    V sum[R][P * VECTORS] = {};
    for (int64_t k = 0; k < w.inner; k++) {
        V column[P * VECTORS];
        UNROLL for (int p = 0; p < P; p++)
            UNROLL for (int v = 0; v < VECTORS; v++)
                column[p * VECTORS + v] = load(weights + p * panel_size + k * PANEL + v * W);
        UNROLL for (int r = 0; r < R; r++) {
            const V factor = splat(rows[r * x.stride + k]);
            UNROLL for (int c = 0; c < P * VECTORS; c++) sum[r][c] = fma(factor, column[c], sum[r][c]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < P * VECTORS; c++) epilogue(row + r, panel * PANEL + c * W, sum[r][c], w);
}

template <int R, int P>
static void int8_block(const Input& x, const PackedMatrix& w, int64_t row, int64_t panel, const Epilogue& epilogue) {
    const int8_t* weights = w.panel<int8_t>(panel);
    const int64_t panel_size = PANEL * round_up(w.inner, 4);
    const uint8_t* rows = x.bytes + row * x.byte_stride;
    VI sum[R][P * VECTORS] = {};
    for (int64_t k = 0; k < w.inner; k += 4) {
        Int8Weights four[P * VECTORS];
        UNROLL for (int p = 0; p < P; p++)
            UNROLL for (int v = 0; v < VECTORS; v++)
                four[p * VECTORS + v] = load_int8_weights(weights + p * panel_size + k * PANEL + v * W * 4);
        UNROLL for (int r = 0; r < R; r++) {
            const Int8Factors factors = load_int8_factors(rows + r * x.byte_stride + k);
            UNROLL for (int c = 0; c < P * VECTORS; c++) sum[r][c] = dot(sum[r][c], factors, four[c]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < P * VECTORS; c++) {
            const int64_t column = panel * PANEL + c * W;
            VI correction;
            memcpy(&correction, w.correction.data + column, sizeof correction);
            const V whole = __builtin_convertvector(sum[r][c] - correction, V);
            epilogue(row + r, column, whole * (load(w.scale.data + column) * x.scale[row + r]), w);
        }
}

template <int R, int P>
static inline void block(const Input& x, const PackedMatrix& w, int64_t row, int64_t panel, const Epilogue& epilogue) {
    if (w.type == INT8)
        int8_block<R, P>(x, w, row, panel, epilogue);
    else if (w.type == FLOAT16)
        float_block<half, R, P>(x, w, w.panel<half>(panel), row, panel, epilogue);
    else
        float_block<float, R, P>(x, w, w.panel<float>(panel), row, panel, epilogue);
}

// How many panels R rows are multiplied with at a time: as many as there are registers for their sums. Of one row six,
// whose twelve sums keep the multipliers busy while each waits for its own last result.
constexpr int block_panels(int R) {
    const int fit = SUM_REGISTERS / (R * VECTORS);
    if (R == 1 && fit >= 6) return 6;
    return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

// R rows by `panels` <= P panels. Each number of panels has code of its own, found by counting P down.
template <int R, int P>
static inline void panel_block(int64_t panels, const Input& x, const PackedMatrix& w, int64_t row, int64_t panel,
                               const Epilogue& epilogue) {
    if constexpr (P > 1)
        if (panels < P) return panel_block<R, P - 1>(panels, x, w, row, panel, epilogue);
    block<R, P>(x, w, row, panel, epilogue);
}

// `rows` <= R rows by the panels begin .. end - 1. Each number of rows has code of its own, found by counting R down.
template <int R>
static inline void row_block(int64_t rows, const Input& x, const PackedMatrix& w, int64_t row, int64_t begin,
                             int64_t end, const Epilogue& epilogue) {
    if constexpr (R > 1)
        if (rows < R) return row_block<R - 1>(rows, x, w, row, begin, end, epilogue);
    constexpr int P = block_panels(R);
    for (int64_t panel = begin; panel < end; panel += P) panel_block<R, P>(end - panel, x, w, row, panel, epilogue);
}

// The same for one panel whose weights were converted to float32 before.
template <int R>
static inline void converted_row_block(int64_t rows, const Input& x, const PackedMatrix& w, const float* converted,
                                       int64_t row, int64_t panel, const Epilogue& epilogue) {
    if constexpr (R > 1)
        if (rows < R) return converted_row_block<R - 1>(rows, x, w, converted, row, panel, epilogue);
    float_block<float, R, 1>(x, w, converted, row, panel, epilogue);
}

// `count` rows by the columns of panels begin .. end - 1. `converted` [inner, 32] is scratch memory.
static inline void matmul(const Input& x, int64_t count, const PackedMatrix& w, int64_t begin, int64_t end,
                          const Epilogue& epilogue, float* converted) {
    // Rows are divided into blocks of nearly equal height: 8 rows are 4 + 4, which need fewer loads than 7 + 1.
    const int64_t blocks = (count + MAX_BLOCK_ROWS - 1) / MAX_BLOCK_ROWS;
    const auto block_begin = [&](int64_t b) { return count * b / blocks; };

    // With few registers, converting a float16 panel anew for every block costs half of the time: convert it once.
    if (W < 16 && blocks > 2 && w.type == FLOAT16) {
        for (int64_t panel = begin; panel < end; panel++) {
            const half* weights = w.panel<half>(panel);
            for (int64_t i = 0; i < w.inner * PANEL; i += W) store(converted + i, load(weights + i));
            for (int64_t b = 0; b < blocks; b++)
                converted_row_block<MAX_BLOCK_ROWS>(block_begin(b + 1) - block_begin(b), x, w, converted,
                                                    block_begin(b), panel, epilogue);
        }
        return;
    }

    // All rows pass the panels of one block before the next panels are read, which then come from memory only once.
    const int64_t at_once = block_panels(int((count + blocks - 1) / blocks));
    for (int64_t panel = begin; panel < end; panel += at_once)
        for (int64_t b = 0; b < blocks; b++)
            row_block<MAX_BLOCK_ROWS>(block_begin(b + 1) - block_begin(b), x, w, block_begin(b), panel,
                                      std::min(panel + at_once, end), epilogue);
}

}  // namespace ISA
