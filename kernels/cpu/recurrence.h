// One step of linear attention for one head of one image (eq. 18-20): the state (s [C, M], z [C]) takes in phi(k) v^T and
// phi(k) IN PLACE, and y [M] = phi(q) s / (phi(q) z + epsilon) is read out of it. q and k are already phi(q) and phi(k).
#pragma once
#include "vector.h"

namespace ISA {

constexpr float NORMALISER_EPSILON = 1e-6f;

// M as a whole number of vectors known at compile time: y's sums stay in registers while s passes by once. Even and odd
// rows of s have sums of their own, so that additions overlap.
template <int VECTORS_OF_M>
static inline void update_and_read(const float* q, const float* k, const float* v, int64_t C, float normaliser,
                                   float* s, float* y) {
    constexpr int M = VECTORS_OF_M * W;
    V even[VECTORS_OF_M] = {}, odd[VECTORS_OF_M] = {}, value[VECTORS_OF_M];
    UNROLL for (int j = 0; j < VECTORS_OF_M; j++) value[j] = load(v + j * W);
    int64_t c = 0;
    for (; c + 2 <= C; c += 2)
        UNROLL for (int j = 0; j < VECTORS_OF_M; j++) {
            float *s0 = s + c * M + j * W, *s1 = s0 + M;
            const V new0 = fma(splat(k[c]), value[j], load(s0)), new1 = fma(splat(k[c + 1]), value[j], load(s1));
            store(s0, new0);
            store(s1, new1);
            even[j] = fma(splat(q[c]), new0, even[j]);
            odd[j] = fma(splat(q[c + 1]), new1, odd[j]);
        }
    if (c < C) UNROLL for (int j = 0; j < VECTORS_OF_M; j++) {
            float* s0 = s + c * M + j * W;
            const V new0 = fma(splat(k[c]), value[j], load(s0));
            store(s0, new0);
            even[j] = fma(splat(q[c]), new0, even[j]);
        }
    UNROLL for (int j = 0; j < VECTORS_OF_M; j++) store(y + j * W, (even[j] + odd[j]) / normaliser);
}

static inline void recur(const float* q, const float* k, const float* v, int64_t C, int64_t M, float* s, float* z,
                         float* y) {
    // z += k, and the normaliser q z
    V sums{};
    int64_t c = 0;
    for (; c + W <= C; c += W) {
        const V sum = load(z + c) + load(k + c);
        store(z + c, sum);
        sums = fma(load(q + c), sum, sums);
    }
    if (c < C) {
        const V sum = load_partial(z + c, C - c) + load_partial(k + c, C - c);
        store_partial(z + c, sum, C - c);
        sums = fma(load_partial(q + c, C - c), sum, sums);
    }
    const float normaliser = hsum(sums) + NORMALISER_EPSILON;

    // s += k v^T, and y = q s / normaliser: the usual widths first, then any M, a vector of columns at a time
    if (M == 2 * W) return update_and_read<2>(q, k, v, C, normaliser, s, y);
    if (M == 4 * W) return update_and_read<4>(q, k, v, C, normaliser, s, y);
    for (int64_t j = 0; j < M; j += W) {
        const int64_t n = M - j < W ? M - j : W;
        const V value = load_partial(v + j, n);
        V sum{};
        for (c = 0; c < C; c++) {
            const V updated = fma(splat(k[c]), value, load_partial(s + c * M + j, n));
            store_partial(s + c * M + j, updated, n);
            sum = fma(splat(q[c]), updated, sum);
        }
        store_partial(y + j, sum / normaliser, n);
    }
}

}  // namespace ISA
