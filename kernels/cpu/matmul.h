// x W^T + b for a few rows of x. Every number of the result is one chain of fused multiply-adds over k = 0, 1, 2, ...,
// whatever the number of rows, so that an image's arithmetic cannot depend on its company; int8 sums are whole numbers.
//
// A block keeps R rows x P panels of sums in registers and reads every weight once for its R rows.
#pragma once
#include <algorithm>

#include "elementwise.h"
#include "packing.h"

namespace WAY {

constexpr int VECTORS = PANEL / W;  // of a panel's row
#if defined(__AVX512F__)
constexpr int MOST_ROWS = 7;  // by two panels: 28 of 32 registers hold sums, and 11 loads feed 28 multiply-adds
#elif defined(__AVX2__)
constexpr int MOST_ROWS = 3;  // 12 of 16
#else
constexpr int MOST_ROWS = 2;
#endif

enum Activation { NONE, RELU, GELU };

// What becomes of a sum: bias, activation, the residual that it is added to, and where it goes.
struct Finish {
    Activation activation = NONE;
    const float* residual = nullptr;
    int64_t residual_stride = 0;
    float* out = nullptr;
    int64_t out_stride = 0;

    inline void operator()(int64_t row, int64_t column, V v, const Packed& w) const {
        v = v + load(w.bias.data + column);
        if (activation == GELU) v = gelu(v);
        if (activation == RELU) v = relu(v);
        if (residual) v = load(residual + row * residual_stride + column) + v;
        store(out + row * out_stride + column, v);
    }
};

// Rows of activations: float32, and in 8 bits with a scale each where the product wants them so.
struct Rows {
    const float* numbers = nullptr;
    int64_t stride = 0;
    const uint8_t* bytes = nullptr;  // round(x / scale) + 128
    int64_t byte_stride = 0;
    const float* scale = nullptr;
};

template <class Weight, int R, int P>
static void block(const Rows& x, const Packed& w, const Weight* weights, int64_t row, int64_t panel,
                  const Finish& finish) {
    const int64_t step = PANEL * round_up(w.inner, 4);
    const float* rows = x.numbers + row * x.stride;
    V sum[R][P * VECTORS] = {};
    for (int64_t k = 0; k < w.inner; k++) {
        V column[P * VECTORS];
        UNROLL for (int p = 0; p < P; p++)
            UNROLL for (int v = 0; v < VECTORS; v++)
                column[p * VECTORS + v] = load(weights + p * step + k * PANEL + v * W);
        UNROLL for (int r = 0; r < R; r++) {
            const V factor = all(rows[r * x.stride + k]);
            UNROLL for (int c = 0; c < P * VECTORS; c++) sum[r][c] = fma(factor, column[c], sum[r][c]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < P * VECTORS; c++) finish(row + r, panel * PANEL + c * W, sum[r][c], w);
}

#if defined(__AVX512VNNI__)
// sum += a . b over four pairs in every lane
static inline VI dot(VI sum, const uint8_t* four, const int8_t* weights) {
    int32_t a;
    memcpy(&a, four, 4);
    return (VI)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi32(a), _mm512_loadu_si512(weights));
}

template <int R, int P>
static void block8(const Rows& x, const Packed& w, int64_t row, int64_t panel, const Finish& finish) {
    const int8_t* weights = w.panel<int8_t>(panel);
    const int64_t step = PANEL * round_up(w.inner, 4);
    const uint8_t* rows = x.bytes + row * x.byte_stride;
    VI sum[R][P * VECTORS] = {};
    for (int64_t k = 0; k < w.inner; k += 4)
        UNROLL for (int r = 0; r < R; r++)
            UNROLL for (int p = 0; p < P; p++)
                UNROLL for (int v = 0; v < VECTORS; v++)
                    sum[r][p * VECTORS + v] = dot(sum[r][p * VECTORS + v], rows + r * x.byte_stride + k,
                                                  weights + p * step + k * PANEL + v * W * 4);
    for (int r = 0; r < R; r++)
        for (int c = 0; c < P * VECTORS; c++) {
            const int64_t column = panel * PANEL + c * W;
            VI correction;
            memcpy(&correction, w.correction.data + column, sizeof correction);
            const V whole = __builtin_convertvector(sum[r][c] - correction, V);
            finish(row + r, column, whole * (load(w.scale.data + column) * x.scale[row + r]), w);
        }
}
#endif

template <int R, int P>
static inline void held(const Rows& x, const Packed& w, int64_t row, int64_t panel, const Finish& finish) {
#if defined(__AVX512VNNI__)
    if (w.held == INT8) return block8<R, P>(x, w, row, panel, finish);
#endif
    if (w.held == FLOAT16)
        block<half, R, P>(x, w, w.panel<half>(panel), row, panel, finish);
    else
        block<float, R, P>(x, w, w.panel<float>(panel), row, panel, finish);
}

// Panels for the sums of R rows.
constexpr int PANELS(int R) {
    constexpr int REGISTERS = W == 16 ? 28 : W == 8 ? 12 : 8;
    const int fit = REGISTERS / (R * VECTORS);
    return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

// The block with `count` rows, as many panels as its sums leave registers for; how many it did.
template <int R>
static inline int64_t panels(int64_t count, const Rows& x, const Packed& w, int64_t row, int64_t panel, int64_t stop,
                             const Finish& finish) {
    if constexpr (R > 1)
        if (count < R) return panels<R - 1>(count, x, w, row, panel, stop, finish);
    constexpr int MOST = PANELS(R);
    if constexpr (MOST == 4)
        if (stop - panel >= 4) return held<R, 4>(x, w, row, panel, finish), 4;
    if constexpr (MOST >= 2)
        if (stop - panel >= 2) return held<R, 2>(x, w, row, panel, finish), 2;
    return held<R, 1>(x, w, row, panel, finish), 1;
}

// A panel of float16 as float32, for many small blocks: where few registers are, widening it anew for each costs half
// of the time.
static inline const float* widen(const Packed& w, int64_t panel, float* wide) {
    const half* weights = w.panel<half>(panel);
    for (int64_t i = 0; i < w.inner * PANEL; i += W) store(wide + i, load(weights + i));
    return wide;
}

template <int R>
static inline void wide_panel(int64_t count, const Rows& x, const Packed& w, const float* wide, int64_t row,
                              int64_t panel, const Finish& finish) {
    if constexpr (R > 1)
        if (count < R) return wide_panel<R - 1>(count, x, w, wide, row, panel, finish);
    block<float, R, 1>(x, w, wide, row, panel, finish);
}

// Columns of panels begin .. end - 1, for `count` rows; `wide` [inner, 32] is room to work in.
static inline void matmul(const Rows& x, int64_t count, const Packed& w, int64_t begin, int64_t end,
                          const Finish& finish, float* wide) {
    const int64_t blocks = (count + MOST_ROWS - 1) / MOST_ROWS;
    const bool widens = W < 16 && blocks > 2 && w.held == FLOAT16;
    const int64_t abreast = widens ? 1 : PANELS(int((count + blocks - 1) / blocks));
    for (int64_t panel = begin; panel < end; panel += abreast) {
        const int64_t stop = std::min(panel + abreast, end);
        if (widens) widen(w, panel, wide);
        for (int64_t b = 0; b < blocks; b++) {
            const int64_t row = count * b / blocks, rows = count * (b + 1) / blocks - row;
            if (widens)
                wide_panel<MOST_ROWS>(rows, x, w, wide, row, panel, finish);
            else
                for (int64_t p = panel; p < stop;) p += panels<MOST_ROWS>(rows, x, w, row, p, stop, finish);
        }
    }
}

// Rows in 8 bits: round(x / scale) + 128 with scale = max |x| / 127, padded with 128 (zero) to a multiple of four.
static inline void quantise(const float* x, int64_t n, uint8_t* bytes, float* scale) {
    typedef uint8_t VB __attribute__((vector_size(W)));
    V most{};
    int64_t i = 0;
    for (; i + W <= n; i += W) {
        const V v = load(x + i), size = v < 0.0f ? -v : v;
        most = size > most ? size : most;
    }
    if (i < n) {
        const V v = load_some(x + i, n - i), size = v < 0.0f ? -v : v;
        most = size > most ? size : most;
    }
    const float top = largest(most), factor = top > 0 ? 127 / top : 0;
    *scale = top / 127;
    for (i = 0; i + W <= n; i += W) {
        const V shifted = fma(load(x + i), all(factor), all(12582912.0f + 128));  // round to nearest even in the low bits
        const VB narrow = __builtin_convertvector((VI)shifted, VB);
        memcpy(bytes + i, &narrow, sizeof narrow);
    }
    for (; i < n; i++) bytes[i] = uint8_t(int(std::nearbyint(x[i] * factor)) + 128);
    for (; i % 4; i++) bytes[i] = 128;
}

}  // namespace WAY
