// The network's weights: read in order from the tensors that Python passes, and packed for the products.
#pragma once
#include <stdexcept>
#include <vector>

#include "distributions/distribution.h"
#include "arithmetic/packing.h"
#include "layers/causal_conv.h"

namespace ISA {

struct NormWeights {
    std::vector<float> weight, bias;
};

// A bias [outer] of a product for each label, in rows as wide as its panels; or none.
struct LabelBiases {
    Array<float> rows;
    int64_t stride = 0;
};

struct LayerWeights {
    PackedMatrix query_key_value;  // query, key and value of head h side by side, from column h * head_width on
    PackedMatrix attention_out, feed_forward_in, feed_forward_out;
    NormWeights attention_norm, feed_forward_norm;
    std::vector<float> conv_weight;  // [NEIGHBOURS, D], or none
    LabelBiases biases;              // of feed_forward_in
};

// A residual block between the window and the layers.
struct BlockWeights {
    NormWeights norm;
    PackedMatrix expand, contract;
    std::vector<float> conv_weight;  // as of a layer
    LabelBiases biases;              // of expand
};

// The tensors one after the other, each checked to have the size that the shape needs.
class TensorReader {
    const Tensor *next, *const end;

  public:
    TensorReader(const Tensor* tensors, int64_t count) : next(tensors), end(tensors + count) {}

    const float* pointer(int64_t size) {
        if (next == end || next->size != size) throw std::invalid_argument("a tensor does not fit the shape");
        return next++->data;
    }

    std::vector<float> copy(int64_t size) {
        const float* data = pointer(size);
        return {data, data + size};
    }

    LabelBiases biases(int64_t labels, int64_t outer) {
        LabelBiases biases{Array<float>(labels * round_up(outer, PANEL)), round_up(outer, PANEL)};
        const float* data = pointer(labels * outer);
        for (int64_t i = 0; i < labels; i++) memcpy(biases.rows.data + i * biases.stride, data + i * outer, 4 * outer);
        return biases;
    }

    NormWeights norm(int64_t width) {
        NormWeights norm;
        norm.weight = copy(width);
        norm.bias = copy(width);
        return norm;
    }

    // A matrix [outer, inner] and its bias [outer]; column j of the packed one is row rows[j].
    PackedMatrix matrix(int64_t outer, int64_t inner, const std::vector<int64_t>& rows, WeightType type) {
        const float* weights = pointer(outer * inner);
        const float* bias = pointer(outer);
        return pack(weights, bias, inner, rows, type);
    }

    PackedMatrix matrix(int64_t outer, int64_t inner, WeightType type) {
        std::vector<int64_t> rows(outer);
        for (int64_t i = 0; i < outer; i++) rows[i] = i;
        return matrix(outer, inner, rows, type);
    }

    // One that is not rounded to 8 bits: where that is faster in float16, if this holds its weights.
    PackedMatrix exact_matrix(int64_t outer, int64_t inner, WeightType type) {
        if (type == INT8) type = IN_PAIRS && next != end && are_float16(next->data, next->size) ? FLOAT16 : FLOAT32;
        return matrix(outer, inner, type);
    }

    void expect_end() const {
        if (next != end) throw std::invalid_argument("there are more tensors than the shape needs");
    }
};

struct Weights {
    const Shape shape;
    const int64_t width, bytes, keys, head_width, padded_width, padded_hidden;
    const int64_t embedding_width;                      // of values and of positions: D, or D/2 where they are concatenated
    const int64_t window_bytes, linear_inputs, inputs;  // of a window: its bytes, its inputs without waves, all of them
    std::vector<float> value, row, column, channel, waves, wave_table, classes;
    PackedMatrix input, skip;
    std::vector<BlockWeights> blocks;
    std::vector<LayerWeights> layers;
    NormWeights final_norm;
    PackedMatrix head;

    // Throws std::invalid_argument if the tensors are not those the shape needs.
    Weights(const Shape& given, const Tensor* tensors, int64_t count, WeightType type)
        : shape(given),
          width(given.heads * given.value_width),
          bytes(given.height * given.width * given.channels),
          keys(given.heads * given.key_width),
          head_width(round_up(2 * given.key_width + given.value_width, PANEL)),
          padded_width(round_up(width, PANEL)),
          padded_hidden(round_up(std::max(given.feed_forward, given.block_width), PANEL)),
          embedding_width(given.concat ? width / 2 : width),
          window_bytes(pixels_around(given.window_rows, given.window_columns) * given.channels),
          linear_inputs(window_bytes + (given.centred ? given.channels : 0)),
          inputs(linear_inputs + 2 * given.waves * pixels_around(given.wave_rows, given.wave_columns) * given.channels) {
        if (shape.channels > MAX_CHANNELS || shape.step_bytes > shape.channels)
            throw std::invalid_argument("a step has too many bytes");
        TensorReader reader(tensors, count);
        // the input, the head and the skip are never rounded to 8 bits: a small error of a mean is a whole byte
        if (shape.reads == WINDOW)
            read_window_weights(reader, type);
        else
            read_embedding(reader);
        const std::vector<int64_t> by_head = rows_by_head();
        for (int64_t i = 0; i < shape.layers; i++) {
            LayerWeights layer;
            layer.query_key_value = reader.matrix(2 * keys + width, width, by_head, type);
            layer.attention_out = reader.matrix(width, width, type);
            layer.feed_forward_in = reader.matrix(shape.feed_forward, width, type);
            layer.feed_forward_out = reader.matrix(width, shape.feed_forward, type);
            layer.attention_norm = reader.norm(width);
            layer.feed_forward_norm = reader.norm(width);
            if (shape.causal_conv) layer.conv_weight = reader.copy(NEIGHBOURS * width);
            if (shape.class_biases) layer.biases = reader.biases(shape.classes + 1, shape.feed_forward);
            layers.push_back(std::move(layer));
        }
        final_norm = reader.norm(width);
        head = reader.exact_matrix(parameters_of(shape), width, type);
        if (shape.skip) skip = reader.exact_matrix(shape.channels, linear_inputs, type);
        if (shape.classes) classes = reader.copy((shape.classes + 1) * width);
        reader.expect_end();
    }

  private:
    // The pixels above and to either side, and to the left.
    static int64_t pixels_around(int64_t rows, int64_t columns) { return rows * (2 * columns + 1) + columns; }

    void read_embedding(TensorReader& reader) {
        // without a start token there is no row that stands for a byte before the image
        value = reader.copy((shape.first ? VALUES : VALUES + 1) * embedding_width);
        if (!shape.axial) {
            waves = reader.copy(bytes * embedding_width);
            return;
        }
        row = reader.copy(shape.height * embedding_width);
        column = reader.copy(shape.width * embedding_width);
        if (shape.channels > 1) channel = reader.copy(shape.channels * embedding_width);
    }

    void read_window_weights(TensorReader& reader, WeightType type) {
        if (shape.waves) wave_table = reader.copy(VALUES * 2 * shape.waves);
        input = reader.exact_matrix(width, inputs, type);
        row = reader.copy(shape.height * width);
        column = reader.copy(shape.width * width);
        for (int64_t i = 0; i < shape.blocks; i++) {
            BlockWeights block;
            block.norm = reader.norm(width);
            block.expand = reader.matrix(shape.block_width, width, type);
            block.contract = reader.matrix(width, shape.block_width, type);
            if (shape.causal_conv) block.conv_weight = reader.copy(NEIGHBOURS * width);
            if (shape.class_biases) block.biases = reader.biases(shape.classes + 1, shape.block_width);
            blocks.push_back(std::move(block));
        }
    }

    // The projection gives all queries, all keys, all values. Here each head's three stand together and start a panel
    // of their own, so that a thread can compute the heads it owns.
    std::vector<int64_t> rows_by_head() const {
        const int64_t C = shape.key_width, M = shape.value_width;
        std::vector<int64_t> rows;
        for (int64_t h = 0; h < shape.heads; h++) {
            for (int64_t c = 0; c < C; c++) rows.push_back(h * C + c);
            for (int64_t c = 0; c < C; c++) rows.push_back(keys + h * C + c);
            for (int64_t m = 0; m < M; m++) rows.push_back(2 * keys + h * M + m);
            rows.resize((h + 1) * head_width, -1);
        }
        return rows;
    }
};

}  // namespace ISA
