// One step of linear attention for one head of one image (eq. 18-20): the state (s [C, M], z [C]) takes in phi(k) v^T and
// phi(k) IN PLACE, and y [M] = phi(q) s / (phi(q) z + epsilon) is read out of it. q and k are already phi(q) and phi(k).
#pragma once
#include "arithmetic/vector.h"

namespace ISA {

constexpr float NORMALISER_EPSILON = 1e-6f;

// Columns of s and y from `v`, `s` and `y` on: VECTORS whole vectors, or where it is 1 the first n <= W lanes of one. y's
// sums stay in registers while s passes by once. Even and odd rows of s have sums of their own, so that additions overlap.
template <int VECTORS>
static inline void update_and_read(const float* q, const float* k, const float* v, int64_t C, int64_t M, int64_t n,
                                   float normaliser, float* s, float* y) {
    V even[VECTORS] = {}, odd[VECTORS] = {}, value[VECTORS];
    UNROLL for (int j = 0; j < VECTORS; j++) value[j] = load_partial(v + j * W, n);
    const auto row = [&](int64_t c, int j, V sum) {
        float* at = s + c * M + j * W;
        const V updated = fma(splat(k[c]), value[j], load_partial(at, n));
        store_partial(at, updated, n);
        return fma(splat(q[c]), updated, sum);
    };
    int64_t c = 0;
    for (; c + 2 <= C; c += 2)
        UNROLL for (int j = 0; j < VECTORS; j++) {
            even[j] = row(c, j, even[j]);
            odd[j] = row(c + 1, j, odd[j]);
        }
    if (c < C) UNROLL for (int j = 0; j < VECTORS; j++) even[j] = row(c, j, even[j]);
    UNROLL for (int j = 0; j < VECTORS; j++) store_partial(y + j * W, (even[j] + odd[j]) / normaliser, n);
}

// Asks for the state s [C, M] of a head while another one is computed: hardware alone fetches ahead only within a page,
// and a head of 32 x 32 fills one.
static inline void fetch(const float* s, int64_t size) {
    for (int64_t i = 0; i < size; i += 16) __builtin_prefetch(s + i, 1);
}

static inline void recur(const float* q, const float* k, const float* v, int64_t C, int64_t M, float* s, float* z,
                         float* y) {
    // z += k, and the normaliser q z
    const float normaliser = NORMALISER_EPSILON + lane_sum(C, [&](V sum, int64_t i, int64_t count) {
        const V updated = load_partial(z + i, count) + load_partial(k + i, count);
        store_partial(z + i, updated, count);
        return fma(load_partial(q + i, count), updated, sum);
    });

    // s += k v^T, and y = q s / normaliser: as many columns at a time as there are registers for
    int64_t j = 0;
    for (; j + 4 * W <= M; j += 4 * W) update_and_read<4>(q, k, v + j, C, M, W, normaliser, s + j, y + j);
    for (; j + 2 * W <= M; j += 2 * W) update_and_read<2>(q, k, v + j, C, M, W, normaliser, s + j, y + j);
    for (; j < M; j += W) update_and_read<1>(q, k, v + j, C, M, M - j, normaliser, s + j, y + j);
}

}  // namespace ISA
