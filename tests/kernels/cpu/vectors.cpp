// Runs a case of tests/support/kernels/native_vectors.py with a library of this machine's processor: vectors INPUT OUTPUT ISA.
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "abi.h"

static FILE* input;
static FILE* output;

template <class T>
static std::vector<T> read(int64_t count) {
    std::vector<T> numbers(count);
    if (fread(numbers.data(), sizeof(T), count, input) != size_t(count)) abort();
    return numbers;
}

template <class T>
static void write(const std::vector<T>& numbers) {
    if (fwrite(numbers.data(), sizeof(T), numbers.size(), output) != numbers.size()) abort();
}

int main(int, char** arguments) {
    input = fopen(arguments[1], "rb");
    output = fopen(arguments[2], "wb");
    if (!input || !output) abort();

    const Shape shape = read<Shape>(1)[0];
    const auto header = read<int64_t>(4);
    const int64_t count = header[2], P = header[3], N = shape.height * shape.width * shape.channels;
    std::vector<std::vector<float>> data;
    std::vector<Tensor> tensors;
    for (int64_t i = 0; i < header[0]; i++) {
        data.push_back(read<float>(read<int64_t>(1)[0]));
        tensors.push_back({data.back().data(), int64_t(data.back().size())});
    }
    auto images = read<uint8_t>(count * N);
    const auto known = read<uint8_t>(count * N);
    const auto seed = read<int64_t>(count), index = read<int64_t>(count);
    const auto temperature = read<float>(count);
    const auto label = read<int64_t>(count);
    const auto partner = read<int64_t>(count);
    const auto guidance = read<float>(count);

    void* network = scanline_create(&shape, tensors.data(), header[0], header[1], 1, arguments[3]);
    if (!network) {
        fprintf(stderr, "no network for %s; there are: %s\n", arguments[3], scanline_isas());
        return 1;
    }
    const int64_t z_size = shape.layers * count * shape.heads * shape.key_width, s_size = z_size * shape.value_width;
    const int64_t bytes = N - shape.first, convolutions = shape.causal_conv ? shape.blocks + shape.layers : 0;
    const int64_t conv_state_size = convolutions * count * (shape.width + 3) * shape.heads * shape.value_width;
    for (const bool reading : {true, false}) {
        std::vector<float> s(s_size), z(z_size), conv_state(conv_state_size), parameters(count * bytes / shape.step_bytes * P);
        std::vector<uint32_t> intervals(2 * count * bytes);
        std::vector<int64_t> position(count, shape.first);
        std::vector<double> bits(count), known_bits(count), read_bits(count * bytes);
        const Slots slots{count,           s.data(),     z.data(),          conv_state.data(), position.data(),
                          images.data(),   known.data(), bits.data(),       seed.data(),    index.data(),
                          temperature.data(), label.data(), known_bits.data(), partner.data(), guidance.data()};
        if (reading) {
            scanline_read(network, &slots, shape.first, N, read_bits.data(), parameters.data(),
                          intervals.data());
            write(read_bits);
            write(parameters);
            write(intervals);
        } else {
            std::vector<int64_t> chosen(slots.count);
            std::iota(chosen.begin(), chosen.end(), 0);
            Ahead ahead{};  // as many steps of an image in a pass as are worth their cost
            if (scanline_advance(network, &slots, chosen.data(), slots.count, N, &ahead)) return 1;
            write(images);
            write(bits);
        }
        write(s);
        write(z);
    }
    scanline_destroy(network);
    return fclose(output);
}
