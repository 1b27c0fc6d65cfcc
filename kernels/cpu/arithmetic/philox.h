// Philox 4x32-10, bit for bit that of kernels/philox.py.
#pragma once
#include <cstdint>

namespace ISA {

struct Uniforms {
    float first, second;  // in (0, 1)
};

static inline Uniforms uniforms(int64_t seed, int64_t index, int64_t position) {
    uint32_t c0 = uint32_t(position), c1 = uint32_t(index), c2 = uint32_t(index >> 32), c3 = 0;
    uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = uint64_t(0xD2511F53u) * c0, b = uint64_t(0xCD9E8D57u) * c2;
        c0 = uint32_t(b >> 32) ^ c1 ^ k0;
        c1 = uint32_t(b);
        c2 = uint32_t(a >> 32) ^ c3 ^ k1;
        c3 = uint32_t(a);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return {(float(c0 >> 9) + 0.5f) * 0x1p-23f, (float(c1 >> 9) + 0.5f) * 0x1p-23f};
}

}  // namespace ISA
