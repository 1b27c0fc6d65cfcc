// The C interface of abi.h: its version, the instruction sets this processor can run, and the choice of one of them.
#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "runner.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

int64_t scanline_abi() {
    return int64_t(SCANLINE_ABI) | int64_t(sizeof(Shape)) << 16 | int64_t(sizeof(Slots)) << 32 |
           int64_t(sizeof(Tensor) + sizeof(Ahead)) << 48;
}

#if defined(WITH_amx)
// Linux gives a process the registers of AMX when it asks for them.
static bool has_amx_registers() {
#if defined(__linux__)
    const long ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18;
    return !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
#else
    return false;
#endif
}
#endif

const char* scanline_isas() {
    static const std::string isas = [] {
        // setup.py defines WITH_... for each instruction set that the compiler knew; every aarch64 processor has neon
        std::string names;
#if defined(__x86_64__)
        __builtin_cpu_init();
        // two that __builtin_cpu_supports of older compilers does not know by name
        unsigned a = 0, b = 0, c = 0, d = 0;
        const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && c >> 29 & 1;
        [[maybe_unused]] const bool avxvnni = __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 4 & 1;
        [[maybe_unused]] const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
        [[maybe_unused]] const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                                             __builtin_cpu_supports("avx512bw") &&
                                             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
        [[maybe_unused]] const bool amx = __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 24 & 1 && d >> 25 & 1;
#if defined(WITH_amx)
        if (avx512 && __builtin_cpu_supports("avx512vnni") && amx && has_amx_registers()) names += "amx ";
#endif
#if defined(WITH_avx512vnni)
        if (avx512 && __builtin_cpu_supports("avx512vnni")) names += "avx512vnni ";
#endif
#if defined(WITH_avx512)
        if (avx512) names += "avx512 ";
#endif
#if defined(WITH_avxvnni)
        if (avx2 && avxvnni) names += "avxvnni ";
#endif
#if defined(WITH_avx2)
        if (avx2) names += "avx2 ";
#endif
#endif
#if defined(WITH_neon)
        names += "neon ";
#endif
#if defined(WITH_wasm)
        names += "wasm ";
#endif
#if defined(WITH_portable)
        names += "portable ";
#endif
        names.pop_back();
        return names;
    }();
    return isas.c_str();
}

static Runner* create(const Shape& shape, const Tensor* tensors, int64_t count, int64_t weight_type, int64_t threads,
                      const char* isa) {
#if defined(WITH_amx)
    if (!strcmp(isa, "amx")) return amx::create(shape, tensors, count, weight_type, threads);
#endif
#if defined(WITH_avx512vnni)
    if (!strcmp(isa, "avx512vnni")) return avx512vnni::create(shape, tensors, count, weight_type, threads);
#endif
#if defined(WITH_avx512)
    if (!strcmp(isa, "avx512")) return avx512::create(shape, tensors, count, weight_type, threads);
#endif
#if defined(WITH_avxvnni)
    if (!strcmp(isa, "avxvnni")) return avxvnni::create(shape, tensors, count, weight_type, threads);
#endif
#if defined(WITH_avx2)
    if (!strcmp(isa, "avx2")) return avx2::create(shape, tensors, count, weight_type, threads);
#endif
#if defined(WITH_neon)
    if (!strcmp(isa, "neon")) return neon::create(shape, tensors, count, weight_type, threads);
#endif
#if defined(WITH_wasm)
    if (!strcmp(isa, "wasm")) return wasm::create(shape, tensors, count, weight_type, threads);
#endif
#if defined(WITH_portable)
    if (!strcmp(isa, "portable")) return portable::create(shape, tensors, count, weight_type, threads);
#endif
    return nullptr;
}

void* scanline_create(const Shape* shape, const Tensor* tensors, int64_t count, int64_t weight_type, int64_t threads,
                      const char* isa) {
    // compiled for does not mean that this processor can run it
    if (!strstr((" " + std::string(scanline_isas()) + " ").c_str(), (" " + std::string(isa) + " ").c_str())) {
        errno = EINVAL;
        return nullptr;
    }
    try {
        return create(*shape, tensors, count, weight_type, threads, isa);
    } catch (const std::invalid_argument&) {
        errno = EINVAL;
    } catch (const std::bad_alloc&) {
        errno = ENOMEM;
    } catch (const std::system_error&) {  // of std::thread
        errno = EAGAIN;
    }
    return nullptr;
}

void scanline_destroy(void* network) { delete static_cast<Runner*>(network); }

int64_t scanline_advance(void* network, const Slots* slots, const int64_t* chosen, int64_t count, int64_t passes,
                         Ahead* ahead) {
    return static_cast<Runner*>(network)->advance(*slots, chosen, count, passes, *ahead);
}

void scanline_read(void* network, const Slots* slots, int64_t start, int64_t stop, double* bits, float* parameters,
                   uint32_t* intervals) {
    static_cast<Runner*>(network)->read(*slots, start, stop, bits, parameters, intervals);
}

void scanline_read_layers(void* network, const Slots* slots, int64_t start, int64_t stop, int64_t depth, float* outputs) {
    static_cast<Runner*>(network)->read_layers(*slots, start, stop, depth, outputs);
}

int64_t scanline_follow(void* network, const float* parameters, const float* without, const uint8_t* path, int64_t steps,
                        int64_t seed, int64_t index, int64_t position, float temperature, float guidance, uint8_t* drawn) {
    const uint8_t known[MAX_CHANNELS] = {};
    return static_cast<Runner*>(network)->follow({parameters, without, path, steps},
                                                 {seed, index, position, temperature, known}, guidance, drawn);
}

void scanline_copy_slots(void* network, const Slots* slots, const int64_t* sources, const int64_t* targets,
                         int64_t count) {
    static_cast<Runner*>(network)->copy_slots(*slots, sources, targets, count);
}
