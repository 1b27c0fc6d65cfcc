// The C interface: which ways this processor can run, and the one that was asked for.
#include <cstring>
#include <string>

#include "runner.h"

// Those that the compiler knew (setup.py defines WITH_...) and this processor has.
const char* scanline_ways() {
    static const std::string ways = [] {
        std::string found;
#if defined(__x86_64__)
        __builtin_cpu_init();
        const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
        (void)avx512;
#if defined(WITH_avx512vnni)
        if (avx512 && __builtin_cpu_supports("avx512vnni")) found += "avx512vnni ";
#endif
#if defined(WITH_avx512)
        if (avx512) found += "avx512 ";
#endif
#if defined(WITH_avx2)
        if (avx2) found += "avx2 ";
#endif
#endif
        return found + "portable";
    }();
    return ways.c_str();
}

void* scanline_create(const Shape* shape, const float* const* tensors, Precision precision, int64_t threads,
                      const char* way) {
#if defined(WITH_avx512vnni)
    if (!strcmp(way, "avx512vnni")) return avx512vnni::create(*shape, tensors, precision, threads);
#endif
#if defined(WITH_avx512)
    if (!strcmp(way, "avx512")) return avx512::create(*shape, tensors, precision, threads);
#endif
#if defined(WITH_avx2)
    if (!strcmp(way, "avx2")) return avx2::create(*shape, tensors, precision, threads);
#endif
    if (!strcmp(way, "portable")) return portable::create(*shape, tensors, precision, threads);
    return nullptr;
}

void scanline_destroy(void* network) { delete static_cast<Native*>(network); }

void scanline_advance(void* network, const Seats* seats, int64_t steps) {
    static_cast<Native*>(network)->advance(*seats, steps);
}

void scanline_read(void* network, const Seats* seats, int64_t start, int64_t stop, double* bits, float* parameters) {
    static_cast<Native*>(network)->read(*seats, start, stop, bits, parameters);
}
