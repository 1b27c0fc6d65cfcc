// x W^T + b for a few rows of x. Every number of the result is one chain of fused multiply-adds over k = 0, 1, 2, ...,
// whatever the number of rows, so that an image's arithmetic cannot depend on what else is in the batch; int8 sums are
// whole numbers. Rows and columns may be divided in any way, k never.
#pragma once
#include <algorithm>
#include <type_traits>

#include "arithmetic/elementwise.h"
#include "arithmetic/int8.h"
#include "arithmetic/packing.h"

namespace ISA {

constexpr int VECTORS = PANEL / W;  // of one row of a panel
#if defined(__AVX512F__) || defined(__ARM_NEON)
constexpr int REGISTERS = 32;
#else
constexpr int REGISTERS = 16;
#endif

// The rows of a block and its sums, which stay in registers beside a row of weights and a factor. In 8 bits, where no
// instruction does all of it, some sums do not: on Zen 3 smaller blocks took up to 1.3 times as long.
#if defined(__AVX512VNNI__)
constexpr int BLOCK_ROWS = 6, BLOCK_SUMS = 24, INT8_ROWS = 6, INT8_SUMS = 24;  // of 32: 10 loads feed 24 multiply-adds
#elif defined(__AVX512F__)
constexpr int BLOCK_ROWS = 6, BLOCK_SUMS = 24, INT8_ROWS = 7, INT8_SUMS = 28;
#elif defined(__AVX2__)
constexpr int BLOCK_ROWS = 6, BLOCK_SUMS = 12, INT8_ROWS = 3, INT8_SUMS = 12;  // of 16
#elif defined(__ARM_NEON)
constexpr int BLOCK_ROWS = 2, BLOCK_SUMS = 16, INT8_ROWS = 2, INT8_SUMS = 16;  // three rows would leave too few of 32
#else
constexpr int BLOCK_ROWS = 2, BLOCK_SUMS = 8, INT8_ROWS = 2, INT8_SUMS = 8;
#endif

// Without an instruction for it, converting a float16 panel anew for every block takes half of the time.
constexpr bool CONVERTED_ONCE = W < 8;

// Of AVX2's blocks by half a panel, the one that is divided instead: too few sums hide the latency of a multiply-add.
constexpr int SLOW_ROWS = REGISTERS == 16 && W == 8 ? 4 : 0;

#define OUT_OF_LINE __attribute__((noinline))  // so that no other code takes the registers of its loop

enum Activation { NONE, RELU, GELU };

// What happens to a sum before it is stored: bias, activation, addition to a residual.
struct Epilogue {
    Activation activation = NONE;
    const float* residual = nullptr;
    int64_t residual_stride = 0;
    float* out = nullptr;
    int64_t out_stride = 0;
    const float* biases = nullptr;  // a bias for each label, in place of the matrix's own; null: none
    int64_t bias_stride = 0;
    const int64_t* label = nullptr;  // of each row

    inline void operator()(int64_t row, int64_t column, V v, const PackedMatrix& w) const {
        v = v + load((biases ? biases + label[row] * bias_stride : w.bias.data) + column);
        if (activation == GELU) v = gelu(v);
        if (activation == RELU) v = relu(v);
        if (residual) v = load(residual + row * residual_stride + column) + v;
        store(out + row * out_stride + column, v);
    }
};

// Rows of x: float32, times PAIR_SCALE for a product with weights in pairs, and for one with int8 weights also in 8 bits
// with a scale for each row.
struct Input {
    const float* numbers = nullptr;
    int64_t stride = 0;
    const uint8_t* bytes = nullptr;  // of quantise()
    int64_t byte_stride = 0;
    const float* scale = nullptr;
    bool is_scaled = false;
    bool is_unfused = false;  // products are rounded before they are added, where that is faster: no bit is promised
};

// A float32 weight of such a product.
struct Unfused {
    float number;
};
static inline V load(const Unfused* p) { return load(&p->number); }

template <class Weight>
static inline V multiply_add(V a, V b, V c) {
    if constexpr (std::is_same_v<Weight, Unfused>)
        return a * b + c;
    else
        return fma(a, b, c);
}

// A place in a matrix: a panel, and a vector in each of its rows.
struct Column {
    int64_t panel;
    int vector = 0;

    inline int64_t number(int c) const { return panel * PANEL + (vector + c) * W; }
};

// Whether a block's sums leave no room for all columns of a row, which then come one by one.
template <int R, int C>
constexpr bool ONE_BY_ONE = R < C && R * C + C + 1 > REGISTERS;

// Keeps a sum before the loads that follow: else clang loads a column early, and has a sum on the stack meanwhile.
#if defined(__clang__) && defined(__x86_64__)
#define BEFORE_LOADS(sum) asm volatile("" : "+v"(sum) : : "memory")
#else
#define BEFORE_LOADS(sum)
#endif

// R rows x C vectors, half a panel or whole ones, whose sums stay in registers. Every weight is loaded once for all R
// rows. The sum of an output runs over all of `inner` in one register, in order: so neither R nor C, nor which thread has
// the block, changes a bit.
template <class Weight, int R, int C>
static OUT_OF_LINE void float_block(const Input& x, const PackedMatrix& w, const Weight* weights, int64_t row,
                                    Column first, const Epilogue& epilogue) {
    const int64_t panel_size = PANEL * round_up(w.inner, PADDED);
    const float* rows = x.numbers + row * x.stride;
    constexpr int LOADED = IN_PAIRS && std::is_same_v<Weight, half> ? 2 : 1;  // columns at once
    const auto load_columns = [&](int64_t k, int c, V* to) {
        const int vector = first.vector + c;
        const Weight* from = weights + vector / VECTORS * panel_size + k * PANEL + vector % VECTORS * W;
        if constexpr (LOADED == 2)
            load_pair(from, to[0], to[1]);
        else
            to[0] = load(from);
    };
    V sum[R][C] = {};
    for (int64_t k = 0; k < w.inner; k++) {
        if constexpr (ONE_BY_ONE<R, C>) {
            V factor[R];
            UNROLL for (int r = 0; r < R; r++) factor[r] = splat(rows[r * x.stride + k]);
            UNROLL for (int c = 0; c < C; c += LOADED) {
                V each[LOADED];
                load_columns(k, c, each);
                UNROLL for (int i = 0; i < LOADED; i++)
                    UNROLL for (int r = 0; r < R; r++) {
                        sum[r][c + i] = multiply_add<Weight>(factor[r], each[i], sum[r][c + i]);
                        BEFORE_LOADS(sum[r][c + i]);
                    }
            }
        } else {
            V columns[C];
            UNROLL for (int c = 0; c < C; c += LOADED) load_columns(k, c, columns + c);
            UNROLL for (int r = 0; r < R; r++) {
                const V factor = splat(rows[r * x.stride + k]);
                UNROLL for (int c = 0; c < C; c++) sum[r][c] = multiply_add<Weight>(factor, columns[c], sum[r][c]);
            }
        }
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) epilogue(row + r, first.number(c), sum[r][c], w);
}

// Stores the sums of a row and a vector of columns, of numbers in 8 bits.
static inline void finish_int8(const Input& x, const PackedMatrix& w, int64_t row, int64_t column, VI sum,
                               const Epilogue& epilogue) {
    VI correction;
    memcpy(&correction, w.correction.data + column, sizeof correction);
    const V whole = __builtin_convertvector(sum - correction, V);
    epilogue(row, column, whole * (load(w.scale.data + column) * x.scale[row]), w);
}

// The same for weights in 8 bits.
template <int R, int C>
static OUT_OF_LINE void int8_block(const Input& x, const PackedMatrix& w, const int8_t* weights, int64_t row,
                                   Column first, const Epilogue& epilogue) {
    const int64_t panel_size = PANEL * round_up(w.inner, PADDED);
    const uint8_t* rows = x.bytes + row * x.byte_stride;
    const auto column = [&](int64_t k, int c) {
        const int vector = first.vector + c;
        return load_int8_weights(weights + vector / VECTORS * panel_size + k * PANEL + vector % VECTORS * W * 4);
    };
    VI sum[R][C] = {};
    for (int64_t k = 0; k < w.inner; k += 4) {
        if constexpr (ONE_BY_ONE<R, C>) {
            Int8Factors factors[R];
            UNROLL for (int r = 0; r < R; r++) factors[r] = load_int8_factors(rows + r * x.byte_stride + k);
            UNROLL for (int c = 0; c < C; c++) {
                const Int8Weights each = column(k, c);
                UNROLL for (int r = 0; r < R; r++) {
                    sum[r][c] = dot(sum[r][c], factors[r], each);
                    BEFORE_LOADS(sum[r][c]);
                }
            }
        } else {
            Int8Weights columns[C];
            UNROLL for (int c = 0; c < C; c++) columns[c] = column(k, c);
            UNROLL for (int r = 0; r < R; r++) {
                const Int8Factors factors = load_int8_factors(rows + r * x.byte_stride + k);
                UNROLL for (int c = 0; c < C; c++) sum[r][c] = dot(sum[r][c], factors, columns[c]);
            }
        }
    }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) finish_int8(x, w, row + r, first.number(c), sum[r][c], epilogue);
}

#if defined(__AMX_INT8__)
constexpr int64_t TILE_ROWS = 16, MAX_TILES = 3;  // of rows of x; with two of columns they are six of eight registers
constexpr int64_t AHEAD = 3 * PADDED * PANEL;     // bytes of weights
constexpr int64_t FEWEST_ROWS = 4;                // with less, tiles are no faster

// The intrinsics want numbers of registers: six for sums, one for rows of x, the last for weights.
#define ZERO_TILES(a, b, c) { _tile_zero(a); _tile_zero(b); _tile_zero(c); }
#define LOAD_WEIGHTS(at) { _tile_loadd(7, at, 4 * PANEL); }
#define ADD_PRODUCT(sum, rows) { _tile_loadd(6, (rows) + k, x.byte_stride); _tile_dpbusd(sum, 6, 7); }
#define STORE_TILES(left, right, row) { _tile_stored(left, sums[row], 4 * PANEL); _tile_stored(right, sums[row] + W, 4 * PANEL); }

// All rows by whole panels, each as two tiles of columns. A tile multiplies 64 numbers of 16 rows and 16 columns at once.
static OUT_OF_LINE void tile_products(const Input& x, int64_t count, const PackedMatrix& w, int64_t begin, int64_t end,
                                      const Epilogue& epilogue) {
    const int64_t tiles = (count + TILE_ROWS - 1) / TILE_ROWS, rows = (count + tiles - 1) / tiles;
    struct alignas(64) {
        uint8_t palette = 1, start = 0, unused[14] = {};
        uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        uint8_t rows[16] = {};
    } shapes;
    memset(shapes.rows, int(rows), 7);
    shapes.rows[7] = 16;  // of weights: four numbers of 16 columns each
    _tile_loadconfig(&shapes);
    asm volatile("" : : : "memory");  // gcc's loads of tiles do not say that they read memory
    alignas(64) int32_t sums[MAX_TILES * TILE_ROWS][PANEL];
    const uint8_t *first = x.bytes, *second = first + rows * x.byte_stride, *third = second + rows * x.byte_stride;
    for (int64_t panel = begin; panel < end; panel++) {
        const int8_t* weights = w.panel<int8_t>(panel);
        ZERO_TILES(0, 1, 2)
        ZERO_TILES(3, 4, 5)
        for (int64_t k = 0; k < w.inner; k += PADDED, weights += PADDED * PANEL) {
            // of a block that comes next: loads of tiles wait for each other
            for (int64_t i = 0; i < PADDED * PANEL; i += 64) __builtin_prefetch(weights + AHEAD + i);
            LOAD_WEIGHTS(weights)
            ADD_PRODUCT(0, first)
            if (tiles > 1) ADD_PRODUCT(1, second)
            if (tiles > 2) ADD_PRODUCT(2, third)
            LOAD_WEIGHTS(weights + 4 * W)
            ADD_PRODUCT(3, first)
            if (tiles > 1) ADD_PRODUCT(4, second)
            if (tiles > 2) ADD_PRODUCT(5, third)
        }
        STORE_TILES(0, 3, 0)
        if (tiles > 1) STORE_TILES(1, 4, rows)
        if (tiles > 2) STORE_TILES(2, 5, 2 * rows)
        for (int64_t row = 0; row < count; row++)
            for (int64_t column = 0; column < PANEL; column += W) {
                VI sum;
                memcpy(&sum, sums[row] + column, sizeof sum);
                finish_int8(x, w, row, panel * PANEL + column, sum, epilogue);
            }
    }
    _tile_release();  // else each switch to another program saves 8 KB
}
#endif

// Writes the numbers of a float16 panel as float32.
template <class Half>
static inline void convert(const Half* weights, int64_t count, float* converted) {
    if constexpr (IN_PAIRS) {
        for (int64_t i = 0; i < count; i += 2 * W) {
            V first, second;
            load_pair(weights + i, first, second);
            store(converted + i, first * PAIR_SCALE);
            store(converted + i + W, second * PAIR_SCALE);
        }
    } else {
        for (int64_t i = 0; i < count; i += W) store(converted + i, load(weights + i));
    }
}

// Writes numbers times PAIR_SCALE. Returns whether all of these are finite.
static inline bool scale_up(const float* x, int64_t count, float* scaled) {
    V zero{};  // NaN once one is not
    for (int64_t i = 0; i < count; i += W) {
        const V each = load_partial(x + i, count - i) * PAIR_SCALE;
        zero = fma(each, V{}, zero);
        store_partial(scaled + i, each, count - i);
    }
    return fold(zero, [](auto a, auto b) { return a + b; }) == 0;
}

// `count` rows of x for a product in float32; `scaled` is scratch memory as large as they are.
static inline Input float_input(const float* x, int64_t stride, int64_t count, const PackedMatrix& w, float* scaled) {
    Input result{x, stride};
    if (!IN_PAIRS || w.type != FLOAT16) return result;
    result.is_scaled = true;
    for (int64_t r = 0; r < count; r++) result.is_scaled &= scale_up(x + r * stride, w.inner, scaled + r * stride);
    if (result.is_scaled) result.numbers = scaled;
    return result;
}

// How many vectors R rows are multiplied with at a time: half a panel, or as many panels as there are registers for
// their sums. Of one or two rows up to six panels, whose sums keep the multipliers busy while each waits for its own last result.
constexpr int block_vectors(int R, int sums) {
    const int panels = sums / (R * VECTORS);
    if (panels == 0) return VECTORS / 2;
    if (R <= 2 && panels >= 6) return 6 * VECTORS;
    return (panels >= 4 ? 4 : panels >= 2 ? 2 : 1) * VECTORS;
}

// All rows by C vectors, in blocks of R rows and of one row less.
template <class Weight, int R, int C>
static inline void row_blocks(const Input& x, int64_t count, int64_t blocks, const PackedMatrix& w,
                              const Weight* weights, Column first, const Epilogue& epilogue) {
    const auto block = [&](auto height, int64_t row) {
        constexpr int rows = decltype(height)::value;
        if constexpr (std::is_same_v<Weight, int8_t>)
            int8_block<rows, C>(x, w, weights, row, first, epilogue);
        else
            float_block<Weight, rows, C>(x, w, weights, row, first, epilogue);
    };
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t row = count * b / blocks;
        if (R == 1 || count * (b + 1) / blocks - row == R)
            block(std::integral_constant<int, R>(), row);
        else
            block(std::integral_constant<int, std::max(R - 1, 1)>(), row);
    }
}

// All rows by `panels` whole panels, at most P. Each number of panels has code of its own, found by counting P down.
template <class Weight, int R, int P>
static inline void panel_blocks(int64_t panels, const Input& x, int64_t count, int64_t blocks, const PackedMatrix& w,
                                const Weight* weights, int64_t panel, const Epilogue& epilogue) {
    if constexpr (P > 1)
        if (panels < P) return panel_blocks<Weight, R, P - 1>(panels, x, count, blocks, w, weights, panel, epilogue);
    row_blocks<Weight, R, P * VECTORS>(x, count, blocks, w, weights, {panel}, epilogue);
}

// All rows by the panels begin .. end - 1. All rows pass the vectors of one block before the next are read, which then
// come from memory only once. `highest` <= R is the height of the blocks; each has code of its own, found by counting
// R down.
template <class Weight, int R>
static inline void columns(int64_t highest, const Input& x, int64_t count, int64_t blocks, const PackedMatrix& w,
                           int64_t begin, int64_t end, const Epilogue& epilogue, float* converted) {
    if constexpr (R > 1)
        if (highest < R) return columns<Weight, R - 1>(highest, x, count, blocks, w, begin, end, epilogue, converted);
    constexpr int C = block_vectors(R, std::is_same_v<Weight, int8_t> ? INT8_SUMS : BLOCK_SUMS);
    constexpr int P = std::max(C / VECTORS, 1);
    if constexpr ((CONVERTED_ONCE || IN_PAIRS) && std::is_same_v<Weight, half>)
        if (IN_PAIRS ? !x.is_scaled : blocks > 2) {
            for (int64_t panel = begin; panel < end; panel++) {
                convert(w.panel<half>(panel), w.inner * PANEL, converted);
                for (int v = 0; v < VECTORS; v += C)
                    row_blocks<float, R, std::min(C, VECTORS)>(x, count, blocks, w, converted, {panel, v}, epilogue);
            }
            return;
        }
    for (int64_t panel = begin; panel < end; panel += P) {
        const Weight* weights = w.panel<Weight>(panel);
        if constexpr (C < VECTORS)
            for (int v = 0; v < VECTORS; v += C)
                row_blocks<Weight, R, C>(x, count, blocks, w, weights, {panel, v}, epilogue);
        else
            panel_blocks<Weight, R, P>(end - panel, x, count, blocks, w, weights, panel, epilogue);
    }
}

// `count` rows by the columns of panels begin .. end - 1. `converted` [inner, 32] is scratch memory.
static inline void matmul(const Input& x, int64_t count, const PackedMatrix& w, int64_t begin, int64_t end,
                          const Epilogue& epilogue, float* converted) {
    // Rows are divided into blocks of nearly equal height: 10 rows are 5 + 5, which need fewer loads than 6 + 4.
    const auto divided = [&](auto weight, auto most_rows) {
        constexpr int most = decltype(most_rows)::value;
        int64_t blocks = (count + most - 1) / most;
        if ((count + blocks - 1) / blocks == SLOW_ROWS) blocks++;
        const int64_t highest = (count + blocks - 1) / blocks;
        columns<decltype(weight), most>(highest, x, count, blocks, w, begin, end, epilogue, converted);
    };
#if defined(__AMX_INT8__)
    if (w.type == INT8 && count >= FEWEST_ROWS) return tile_products(x, count, w, begin, end, epilogue);
#endif
    if (w.type == INT8)
        divided(int8_t(), std::integral_constant<int, INT8_ROWS>());
    else if (w.type == FLOAT16)
        divided(half(), std::integral_constant<int, BLOCK_ROWS>());
#if defined(__wasm__)
    else if (x.is_unfused)
        divided(Unfused(), std::integral_constant<int, BLOCK_ROWS>());
#endif
    else
        divided(float(), std::integral_constant<int, BLOCK_ROWS>());
}

}  // namespace ISA
