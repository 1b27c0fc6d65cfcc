// Steps of linear attention for one head of one image (eq. 18-20): the state (s [C, M], z [C]) takes in phi(k) v^T and phi(k),
// and y [M] = phi(q) s / (phi(q) z + epsilon) is read out of it. q and k are already phi(q) and phi(k).
//
// Steps are added one after the other, as many at a time as there are registers for: how many changes no bit.
#pragma once
#include <algorithm>
#include <type_traits>

#include "arithmetic/vector.h"

namespace ISA {

constexpr float NORMALISER_EPSILON = 1e-6f;
#if defined(__AVX512F__) || defined(__ARM_NEON)
constexpr int STEPS_AT_ONCE = 4;  // whose values and sums stay in 32 registers
#else
constexpr int STEPS_AT_ONCE = 2;
#endif

// The state of a head. Where the steps that change it may turn out to be wrong, the changed one is in other memory.
struct HeadState {
    float *s, *z;
};

// Keys, values and outputs of successive steps. The query of a step stands before its key, the value behind it.
struct HeadSteps {
    const float* keys;
    int64_t stride;
    float* y;  // null: the outputs have been read
    int64_t y_stride;

    HeadSteps from(int64_t step) const { return {keys + step * stride, stride, y + step * y_stride, y_stride}; }
};

// Columns of s and y from `j` on: VECTORS whole vectors, or where it is 1 the first n <= W lanes of one. y's sums stay in
// registers while s passes by once. Even and odd rows of s have sums of their own, so that additions overlap.
template <int STEPS, int VECTORS, bool READS>
static inline void update_columns(const HeadSteps& steps, int64_t C, int64_t M, int64_t j, int64_t n,
                                  const float* normalisers, const float* s, float* s_after) {
    V even[STEPS][VECTORS] = {}, odd[STEPS][VECTORS] = {}, value[STEPS][VECTORS];
    UNROLL for (int r = 0; r < STEPS; r++)
        UNROLL for (int i = 0; i < VECTORS; i++) value[r][i] = load_partial(steps.keys + r * steps.stride + C + j + i * W, n);
    const auto row = [&](int64_t c, V (&sums)[STEPS][VECTORS]) {
        UNROLL for (int i = 0; i < VECTORS; i++) {
            V updated = load_partial(s + c * M + j + i * W, n);
            UNROLL for (int r = 0; r < STEPS; r++) {
                const float* key = steps.keys + r * steps.stride + c;
                updated = fma(splat(key[0]), value[r][i], updated);
                if (READS) sums[r][i] = fma(splat(key[-C]), updated, sums[r][i]);
            }
            store_partial(s_after + c * M + j + i * W, updated, n);
        }
    };
    int64_t c = 0;
    for (; c + 2 <= C; c += 2) {
        row(c, even);
        row(c + 1, odd);
    }
    if (c < C) row(c, even);
    if (!READS) return;
    UNROLL for (int r = 0; r < STEPS; r++)
        UNROLL for (int i = 0; i < VECTORS; i++)
            store_partial(steps.y + r * steps.y_stride + j + i * W, (even[r][i] + odd[r][i]) / normalisers[r], n);
}

// STEPS steps from the state `before` to the state `after`, which may be the same.
template <int STEPS, bool READS>
static inline void update(const HeadSteps& steps, int64_t C, int64_t M, const HeadState& before, const HeadState& after) {
    // z += k, and the normaliser q z
    float normalisers[STEPS];
    for (int r = 0; r < STEPS; r++) {
        const float *key = steps.keys + r * steps.stride, *z = r ? after.z : before.z;
        normalisers[r] = NORMALISER_EPSILON + lane_sum(C, [&](V sum, int64_t i, int64_t count) {
            const V updated = load_partial(z + i, count) + load_partial(key + i, count);
            store_partial(after.z + i, updated, count);
            return READS ? fma(load_partial(key - C + i, count), updated, sum) : sum;
        });
    }
    // s += k v^T, and y = q s / normaliser
    const auto columns = [&](auto vectors, int64_t j, int64_t n) {
        update_columns<STEPS, decltype(vectors)::value, READS>(steps, C, M, j, n, normalisers, before.s, after.s);
    };
    int64_t j = 0;
    if constexpr (STEPS == 1)
        for (; j + 4 * W <= M; j += 4 * W) columns(std::integral_constant<int, 4>(), j, W);
    for (; j + 2 * W <= M; j += 2 * W) columns(std::integral_constant<int, 2>(), j, W);
    for (; j < M; j += W) columns(std::integral_constant<int, 1>(), j, std::min<int64_t>(M - j, W));
}

template <int STEPS, bool READS>
static inline void update_some(int64_t count, const HeadSteps& steps, int64_t C, int64_t M, const HeadState& before,
                               const HeadState& after) {
    if constexpr (STEPS > 1)
        if (count < STEPS) return update_some<STEPS - 1, READS>(count, steps, C, M, before, after);
    update<STEPS, READS>(steps, C, M, before, after);
}

// `count` steps; READS: with their outputs.
template <bool READS>
static inline void recur(int64_t count, const HeadSteps& steps, int64_t C, int64_t M, const HeadState& before,
                         const HeadState& after) {
    for (int64_t step = 0; step < count; step += STEPS_AT_ONCE)
        update_some<STEPS_AT_ONCE, READS>(count - step, steps.from(step), C, M, step ? after : before, after);
}

// Asks for the state s [C, M] of a head while another one is computed: hardware alone fetches ahead only within a page,
// and a head of 32 x 32 fills one.
static inline void fetch(const float* s, int64_t size) {
    for (int64_t i = 0; i < size; i += 16) __builtin_prefetch(s + i, 1);
}

}  // namespace ISA
