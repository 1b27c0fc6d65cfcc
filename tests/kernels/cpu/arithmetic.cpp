// Arithmetic that every instruction set must do alike, compiled for one of them by tests of this folder: ROUNDS times nine
// fma's against the C library's, products with float16 weights against chains of these, then of every elementwise function a hash of its bits and its largest error.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "arithmetic/matmul.h"
#include "distributions/pixel_logistics.h"

using namespace ISA;

static uint64_t state = 88172645463325252u;
static uint32_t random_bits() {  // xorshift64
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return uint32_t(state >> 32);
}

static uint32_t bits_of_float(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static float any_float() { return float_of(random_bits()); }

// A float with the given binary exponent, of few or many significant bits.
static float with_exponent(int exponent) {
    const uint32_t fraction = random_bits() >> 9, mask = random_bits() % 2 ? 0x7FFFFF : 0x7FFFFF << random_bits() % 24;
    return std::ldexp(float_of(0x3F800000 | (fraction & mask & 0x7FFFFF)), exponent) * (random_bits() % 2 ? 1 : -1);
}

static const float EDGES[] = {0.0f, -0.0f, 1.0f, -1.0f, 0x1p-149f, -0x1p-149f, 0x1p-126f, 0x1.fffffcp-127f,
                              0x1.fffffep127f, -0x1.fffffep127f, 0x1p-24f, 0x1.000002p0f, 0x1.fffffep-1f, 0x1p-75f,
                              0x1p64f, INFINITY, -INFINITY, NAN};

static void check_fma(float a, float b, float c) {
    const float expected = std::fma(a, b, c), found = fma(splat(a), splat(b), splat(c))[W - 1];
    if (bits_of_float(expected) == bits_of_float(found) || (std::isnan(expected) && std::isnan(found))) return;
    printf("fma(%a, %a, %a) is %a, not %a\n", a, b, c, found, expected);
    exit(1);
}

static void check_fmas(int rounds) {
    for (float a : EDGES)
        for (float b : EDGES)
            for (float c : EDGES) check_fma(a, b, c);
    for (int i = 0; i < rounds; i++) {
        check_fma(any_float(), any_float(), any_float());
        // the addend is near the product, or near minus the product, or on either side of half a unit of it
        const float a = with_exponent(int(random_bits() % 60) - 30), b = with_exponent(int(random_bits() % 60) - 30);
        const float near = float_of(bits_of_float(a * b) + random_bits() % 5 - 2);
        check_fma(a, b, near);
        check_fma(a, b, -near);
        check_fma(a, b, std::ldexp(near, int(random_bits() % 60) - 30));
        check_fma(a, b, with_exponent(std::ilogb(a * b) + 23 + int(random_bits() % 4)));
        // half a unit of c, and a little more or less
        const float c = with_exponent(0), factor = 1 + float(int(random_bits() % 5) - 2) * 0x1p-23f;
        check_fma(0x1p-24f * factor, random_bits() % 2 ? 1.0f : -0x1.fffffep-1f, c);
        // subnormal products and sums
        check_fma(with_exponent(-70 - int(random_bits() % 6)), with_exponent(-70 - int(random_bits() % 10)),
                  with_exponent(-135 - int(random_bits() % 15)));
        // what fits float16
        check_fma(half_to_float(uint16_t(random_bits())), half_to_float(uint16_t(random_bits())), any_float());
    }
}

// A product of `rows` rows with weights in float16, each of which has one of these values; x is as large as 2^exponent.
static void check_product(int64_t rows, const std::vector<half>& values, int exponent) {
    const int64_t inner = 57, outer = int64_t(values.size()) / inner;
    std::vector<float> weights(outer * inner), bias(outer), x(rows * inner);
    for (int64_t i = 0; i < outer * inner; i++) weights[i] = half_to_float(values[i]);
    for (float& each : x) each = with_exponent(exponent - int(random_bits() % 3));
    std::vector<int64_t> columns(outer);
    for (int64_t j = 0; j < outer; j++) columns[j] = j;
    const PackedMatrix matrix = pack(weights.data(), bias.data(), inner, columns, FLOAT16);
    Array<float> scaled(rows * inner), out(rows * matrix.width()), converted(inner * PANEL);
    const Epilogue to_out{NONE, nullptr, 0, out.data, matrix.width()};
    matmul(float_input(x.data(), inner, rows, matrix, scaled.data), rows, matrix, 0, matrix.panels, to_out, converted.data);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < outer; j++) {
            float expected = 0;
            for (int64_t k = 0; k < inner; k++) expected = std::fma(x[r * inner + k], weights[j * inner + k], expected);
            const float found = out.data[r * matrix.width() + j];
            if (bits_of_float(expected + 0.0f) == bits_of_float(found)) continue;
            printf("a product of %d rows is %a, not %a\n", int(rows), found, expected);
            exit(1);
        }
}

// With every float16 that is finite, and with those below 128; x is small, as large as its product with these may be in one
// instruction, and larger.
static void check_products() {
    std::vector<half> all, small;
    for (uint32_t bits = 0; bits < 1 << 16; bits++) {
        const half value = half(bits * 40503);  // in another order
        if (std::isfinite(half_to_float(value))) all.push_back(value);
        if (std::fabs(half_to_float(value)) < 128) small.push_back(value);
    }
    for (const std::vector<half>& values : {all, small})
        for (int exponent : {-140, -10, 0, 25, 26, 90})
            for (int64_t rows : {1, 2, 3, 6, 14}) check_product(rows, values, exponent);
}

// Over `count` inputs: the hash of the results' bits, and the largest error in units of the last place.
template <class Function, class Exact>
static void measure(const char* name, Function function, Exact exact, float from, float to, int64_t count) {
    uint64_t hash = 14695981039346656037u;  // FNV-1a
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        const float x = from + (to - from) * (float(i) / float(count)), found = function(splat(x))[W - 1];
        hash = (hash ^ bits_of_float(found)) * 1099511628211u;
        const double expected = exact(double(x));
        const double unit = std::ldexp(1.0, std::ilogb(float(expected)) - 23);
        worst = std::fmax(worst, std::fabs(double(found) - expected) / unit);
    }
    printf("%s %016llx %.3f\n", name, (unsigned long long)hash, worst);
}

int main(int, char** arguments) {
    check_fmas(atoi(arguments[1]));
    check_products();
    const auto exp_ = [](V x) { return exponential(x); };
    const auto log_ = [](V x) { return logarithm(x); };
    const auto sigmoid = [](double x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); };
    const auto bin = [](double a) { return a < 0.5 ? std::log(-std::expm1(-a)) : std::log1p(-std::exp(-a)); };
    const auto gelu_ = [](double x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); };
    measure("exponential", exp_, [](double x) { return std::exp(x); }, -87, 88, 200000);
    measure("logarithm", log_, [](double x) { return std::log(x); }, 0x1p-24f, 1, 200000);
    measure("logarithm", log_, [](double x) { return std::log(x); }, 1, 1000, 200000);
    measure("log_one_plus", [](V x) { return log_one_plus(x); }, [](double x) { return std::log1p(x); }, 0, 1, 200000);
    measure("log_sigmoid", [](V x) { return log_sigmoid(x); }, sigmoid, -90, 15, 200000);
    measure("log_one_minus_exponential", [](V x) { return log_one_minus_exponential(x); }, bin, 1e-6f, 20, 200000);
    measure("gelu", [](V x) { return gelu(x); }, gelu_, -1, 8, 200000);
}
