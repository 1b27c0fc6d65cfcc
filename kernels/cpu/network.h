// The network's weights, packed, and one step of all its layers for a tile of rows: a row is a byte to predict.
//
// A tile is worked on by a team of one or more threads. Each member owns some heads and some columns of every product;
// between two products the team meets. Rows of a tile are images at their own positions, or successive known bytes of
// one image: the recurrence takes rows in order, the products do not mind.
#pragma once
#include <algorithm>
#include <vector>

#include "matmul.h"
#include "mixture.h"
#include "abi.h"
#include "threads.h"

namespace WAY {

constexpr float LAYER_NORM_EPSILON = 1e-5f, NORMALISER_EPSILON = 1e-6f;
constexpr int64_t TILE = 6 * 7;  // rows: enough work for each weight that is read, few enough that states stay near

struct Norm {
    std::vector<float> weight, bias;
};

struct Layer {
    Packed query_key_value;  // of head h: query, key and value side by side, from column h * head_width on
    Packed attention_out, feed_forward_in, feed_forward_out;
    Norm attention_norm, feed_forward_norm;
};

// What a tile's team shares.
struct Tile {
    Array<float> x, y, hidden, parameters;  // [TILE, width | value width of all heads | feed-forward | 3K], padded
    Barrier barrier;
    int64_t rows = 0;
    int64_t seat[TILE], position[TILE];
};

// What each member has for itself.
struct Scratch {
    Array<float> normed, residual, heads, head_row, wide;
    Array<uint8_t> bytes;
    float scale[TILE];
};

static inline void layer_norm(const float* x, int64_t n, const Norm& norm, float* out) {
    V sums{};
    int64_t i = 0;
    float mean = 0, variance = 0;
    for (; i + W <= n; i += W) sums = sums + load(x + i);
    for (mean = total(sums); i < n; i++) mean += x[i];
    mean /= float(n);
    V squares{};
    for (i = 0; i + W <= n; i += W) {
        const V d = load(x + i) - mean;
        squares = fma(d, d, squares);
    }
    for (variance = total(squares); i < n; i++) variance += (x[i] - mean) * (x[i] - mean);
    const float factor = 1 / std::sqrt(variance / float(n) + LAYER_NORM_EPSILON);
    for (i = 0; i + W <= n; i += W)
        store(out + i, fma((load(x + i) - mean) * factor, load(&norm.weight[i]), load(&norm.bias[i])));
    for (; i < n; i++) out[i] = (x[i] - mean) * factor * norm.weight[i] + norm.bias[i];
}

// One image's step of one head (eq. 18-20): s [C, M] and z [C] take in phi(k) v^T and phi(k) as they pass by once, and
// y [M] is read out of them. Even and odd rows of s have sums of their own, so that additions overlap.
template <class Resting, int VECTORS_OF_M>
static inline void recur_whole(const float* q, const float* k, const float* v, int64_t C, float normaliser, Resting* s,
                               float* y) {
    constexpr int M = VECTORS_OF_M * W;
    V even[VECTORS_OF_M] = {}, odd[VECTORS_OF_M] = {}, value[VECTORS_OF_M];
    UNROLL for (int j = 0; j < VECTORS_OF_M; j++) value[j] = load(v + j * W);
    int64_t c = 0;
    for (; c + 2 <= C; c += 2)
        UNROLL for (int j = 0; j < VECTORS_OF_M; j++) {
            Resting *s0 = s + c * M + j * W, *s1 = s0 + M;
            const V new0 = fma(all(k[c]), value[j], load(s0)), new1 = fma(all(k[c + 1]), value[j], load(s1));
            store(s0, new0), store(s1, new1);
            even[j] = fma(all(q[c]), new0, even[j]);
            odd[j] = fma(all(q[c + 1]), new1, odd[j]);
        }
    if (c < C) UNROLL for (int j = 0; j < VECTORS_OF_M; j++) {
            Resting* s0 = s + c * M + j * W;
            const V new0 = fma(all(k[c]), value[j], load(s0));
            store(s0, new0);
            even[j] = fma(all(q[c]), new0, even[j]);
        }
    UNROLL for (int j = 0; j < VECTORS_OF_M; j++) store(y + j * W, (even[j] + odd[j]) / normaliser);
}

template <class Resting>
static inline void recur(const float* q, const float* k, const float* v, int64_t C, int64_t M, Resting* s, float* z,
                         float* y) {
    V sums{};
    int64_t c = 0;
    for (; c + W <= C; c += W) {
        const V sum = load(z + c) + load(k + c);
        store(z + c, sum);
        sums = fma(load(q + c), sum, sums);
    }
    if (c < C) {
        const V sum = load_some(z + c, C - c) + load_some(k + c, C - c);
        store_some(z + c, sum, C - c);
        sums = fma(load_some(q + c, C - c), sum, sums);
    }
    const float normaliser = total(sums) + NORMALISER_EPSILON;
    if (M == 2 * W) return recur_whole<Resting, 2>(q, k, v, C, normaliser, s, y);
    if (M == 4 * W) return recur_whole<Resting, 4>(q, k, v, C, normaliser, s, y);
    for (int64_t j = 0; j < M; j += W) {
        const int64_t n = M - j < W ? M - j : W;
        const V value = load_some(v + j, n);
        V sum{};
        for (c = 0; c < C; c++) {
            const V now = fma(all(k[c]), value, load_some(s + c * M + j, n));
            store_some(s + c * M + j, now, n);
            sum = fma(all(q[c]), now, sum);
        }
        store_some(y + j, sum / normaliser, n);
    }
}

class Network {
  public:
    const Shape shape;
    const Precision precision;
    const int64_t width, bytes, keys, head_width, padded_width, padded_hidden;

    Network(const Shape& given, const float* const* tensors, Precision precision)
        : shape(given),
          precision(precision),
          width(given.heads * given.value_width),
          bytes(given.height * given.width * given.channels),
          keys(given.heads * given.key_width),
          head_width(round_up(2 * given.key_width + given.value_width, PANEL)),
          padded_width(round_up(width, PANEL)),
          padded_hidden(round_up(given.feed_forward, PANEL)),
          offsets(given.offsets, given.offsets + given.tables) {
        const auto held = Weights(precision.weights);
        const int64_t joined = shape.concat ? width / 2 : width, C = shape.key_width, M = shape.value_width;
        value_rows = shape.first ? 256 : 257;
        const auto take = [&](int64_t count) { return std::vector<float>(*tensors, *tensors + count); };
        const auto next = [&](int64_t count) {
            auto taken = take(count);
            tensors++;
            return taken;
        };
        value = next(shape.tables * value_rows * joined);
        if (shape.axial) {
            row = next(shape.height * joined);
            column = next(shape.width * joined);
            channel = shape.channels > 1 ? next(shape.channels * joined) : std::vector<float>(joined);
        } else {
            waves = next(bytes * joined);
        }
        const auto norm = [&] {
            Norm norm;
            norm.weight = next(width);
            norm.bias = next(width);
            return norm;
        };
        const auto in_order = [](int64_t n) {
            std::vector<int64_t> rows(n);
            for (int64_t i = 0; i < n; i++) rows[i] = i;
            return rows;
        };
        const auto product = [&](int64_t inner, const std::vector<int64_t>& rows, Weights held) {
            Packed packed = pack(tensors[0], tensors[1], inner, rows, held);
            tensors += 2;
            return packed;
        };
        std::vector<int64_t> by_head;
        for (int64_t h = 0; h < shape.heads; h++) {
            for (int64_t c = 0; c < C; c++) by_head.push_back(h * C + c);
            for (int64_t c = 0; c < C; c++) by_head.push_back(keys + h * C + c);
            for (int64_t m = 0; m < M; m++) by_head.push_back(2 * keys + h * M + m);
            by_head.resize((h + 1) * head_width, -1);
        }
        for (int64_t i = 0; i < shape.layers; i++) {
            Layer layer;
            layer.query_key_value = product(width, by_head, held);
            layer.attention_out = product(width, in_order(width), held);
            layer.feed_forward_in = product(width, in_order(shape.feed_forward), held);
            layer.feed_forward_out = product(shape.feed_forward, in_order(width), held);
            layer.attention_norm = norm();
            layer.feed_forward_norm = norm();
            layers.push_back(std::move(layer));
        }
        final_norm = norm();
        // the head stays as exact as it was given: a small error of a mean is a whole byte
        head = product(width, in_order(3 * shape.components + shape.anchor_numbers), held == INT8 ? FLOAT32 : held);
    }

    void prepare(Tile& t) const {
        t.x = Array<float>(TILE * padded_width);
        t.y = Array<float>(TILE * padded_width);
        t.hidden = Array<float>(TILE * padded_hidden);
        t.parameters = Array<float>(TILE * head.width());
    }

    Scratch scratch() const {
        Scratch s;
        s.normed = Array<float>(TILE * padded_width);
        s.residual = Array<float>(TILE * padded_width);
        s.heads = Array<float>(TILE * shape.heads * head_width);
        s.head_row = Array<float>(padded_width);
        s.wide = Array<float>(PANEL * std::max(width, shape.feed_forward));
        s.bytes = Array<uint8_t>(TILE * round_up(std::max(width, shape.feed_forward), 64));
        return s;
    }

    // x [D] for the byte at `position` of an image, from the bytes before it.
    void embed(const uint8_t* image, int64_t position, float* x) const {
        const int64_t joined = shape.concat ? width / 2 : width;
        for (int64_t t = 0; t < shape.tables; t++) {
            const int64_t back = position - offsets[t];
            const float* from = &value[(t * value_rows + (back < 0 ? 256 : image[back])) * joined];
            for (int64_t i = 0; i < joined; i++) x[i] = t ? x[i] + from[i] : from[i];
        }
        float* place = shape.concat ? x + joined : x;
        const auto add = [&](const float* from, bool first) {
            for (int64_t i = 0; i < joined; i++) place[i] = first ? from[i] : place[i] + from[i];
        };
        if (shape.axial) {
            const int64_t pixel = position / shape.channels;
            add(&row[pixel / shape.width * joined], shape.concat);
            add(&column[pixel % shape.width * joined], false);
            if (shape.channels > 1) add(&channel[position % shape.channels * joined], false);
        } else {
            add(&waves[(position - shape.first) * joined], shape.concat);
        }
    }

    // All layers for the rows of a tile whose x is embedded; x is changed, the states of its seats move one byte on.
    void run_layers(Tile& t, Scratch& mine, const Member& me, const Seats& seats) const {
        const int64_t rows = t.rows;
        const bool pre = shape.pre_norm;
        const Finish onto_x{NONE, pre ? t.x.data : mine.residual.data, padded_width, t.x.data, padded_width};
        const Norm* last = nullptr;  // of a post-norm layer, which the next one applies
        for (int64_t i = 0; i < shape.layers; i++) {
            const Layer& layer = layers[i];
            if (!pre) residual(t, mine, last);
            const float* x = pre ? normed(t.x.data, rows, layer.attention_norm, mine) : mine.residual.data;
            attend(i, x, t, mine, me, seats);
            me.barrier->wait();
            multiply(t.y.data, padded_width, rows, layer.attention_out, me, mine, onto_x);
            me.barrier->wait();
            if (!pre) residual(t, mine, &layer.attention_norm);
            x = pre ? normed(t.x.data, rows, layer.feed_forward_norm, mine) : mine.residual.data;
            multiply(x, padded_width, rows, layer.feed_forward_in, me, mine,
                     {shape.gelu ? GELU : RELU, nullptr, 0, t.hidden.data, padded_hidden});
            me.barrier->wait();
            multiply(t.hidden.data, padded_hidden, rows, layer.feed_forward_out, me, mine, onto_x);
            me.barrier->wait();
            last = &layer.feed_forward_norm;
        }
    }

    // The mixture's parameters of one row of a tile, a byte of `image`: [3K].
    const float* read_out(Tile& t, int64_t row, const uint8_t* image, Scratch& mine) const {
        const float* x = t.x.data + row * padded_width;
        if (!shape.pre_norm) {
            layer_norm(x, width, layers.back().feed_forward_norm, mine.head_row.data);
            x = mine.head_row.data;
        }
        layer_norm(x, width, final_norm, mine.head_row.data);
        float* out = t.parameters.data + row * head.width();
        matmul({mine.head_row.data, padded_width}, 1, head, 0, head.panels, {NONE, nullptr, 0, out, head.width()},
               mine.wide.data);
        if (shape.anchor_numbers) anchor(image, t.position[row], out);
        return out;
    }

  private:
    std::vector<int64_t> offsets;
    int64_t value_rows;
    std::vector<float> value, row, column, channel, waves;
    std::vector<Layer> layers;
    Norm final_norm;
    Packed head;

    const float* normed(const float* x, int64_t rows, const Norm& norm, Scratch& mine) const {
        for (int64_t r = 0; r < rows; r++)
            layer_norm(x + r * padded_width, width, norm, mine.normed.data + r * padded_width);
        return mine.normed.data;
    }

    // The four candidates of kernels/mixture/anchors.py for the byte at `position`.
    void around(const uint8_t* image, int64_t position, float* four) const {
        const int64_t row_bytes = shape.width * shape.channels;
        const bool inner_column = position / shape.channels % shape.width != 0, inner_row = position >= row_bytes;
        const auto value = [&](bool inside, int64_t back) {
            return inside ? float(image[position - back]) / 127.5f - 1.0f : 0.0f;
        };
        const float left = value(inner_column, shape.channels), above = value(inner_row, row_bytes);
        const float corner = value(inner_column && inner_row, row_bytes + shape.channels);
        four[0] = left, four[1] = above, four[3] = 0;
        four[2] = std::fmin(std::fmax(left + above - corner, -1.0f), 1.0f);
    }

    // Moves the means to the network's choice among painted neighbours.
    void anchor(const uint8_t* image, int64_t position, float* parameters) const {
        const int64_t K = shape.components;
        const float* choice = parameters + 3 * K;
        float values[4], before[4], all = 0, sum = 0;
        around(image, position, values);
        if (position % shape.channels) {
            around(image, position - 1, before);
            const float share = 1 / (1 + std::exp(-choice[4])), seen = float(image[position - 1]) / 127.5f - 1.0f;
            for (int i = 0; i < 4; i++) values[i] += share * (seen - before[i]);
        }
        const float top = std::fmax(std::fmax(choice[0], choice[1]), std::fmax(choice[2], choice[3]));
        for (int i = 0; i < 4; i++) {
            const float weight = std::exp(choice[i] - top);
            all += weight, sum += weight * values[i];
        }
        for (int64_t i = K; i < 2 * K; i++) parameters[i] += sum / all;
    }

    // What a post-norm layer reads and adds to: x, through `norm` where there is one.
    void residual(Tile& t, Scratch& mine, const Norm* norm) const {
        for (int64_t r = 0; r < t.rows; r++) {
            const float* x = t.x.data + r * padded_width;
            float* out = mine.residual.data + r * padded_width;
            if (norm)
                layer_norm(x, width, *norm, out);
            else
                memcpy(out, x, 4 * width);
        }
    }

    Rows activations(const float* x, int64_t stride, int64_t rows, const Packed& w, Scratch& mine) const {
        Rows result{x, stride};
        if (w.held == INT8) {
            result.byte_stride = round_up(w.inner, 4);
            result.bytes = mine.bytes.data;
            result.scale = mine.scale;
            for (int64_t r = 0; r < rows; r++)
                quantise(x + r * stride, w.inner, mine.bytes.data + r * result.byte_stride, &mine.scale[r]);
        }
        return result;
    }

    // The member's columns of x W^T.
    void multiply(const float* x, int64_t stride, int64_t rows, const Packed& w, const Member& me, Scratch& mine,
                  const Finish& finish) const {
        matmul(activations(x, stride, rows, w, mine), rows, w, me.begin(w.panels), me.end(w.panels), finish,
               mine.wide.data);
    }

    // The member's heads: projections, feature maps, recurrence; y of the tile's rows.
    void attend(int64_t layer, const float* x, Tile& t, Scratch& mine, const Member& me, const Seats& seats) const {
        const int64_t C = shape.key_width, M = shape.value_width, per_head = head_width / PANEL;
        const int64_t begin = me.begin(shape.heads), end = me.end(shape.heads), stride = shape.heads * head_width;
        const Packed& w = layers[layer].query_key_value;
        matmul(activations(x, padded_width, t.rows, w, mine), t.rows, w, begin * per_head, end * per_head,
               {NONE, nullptr, 0, mine.heads.data, stride}, mine.wide.data);
        for (int64_t r = 0; r < t.rows; r++)
            for (int64_t h = begin; h < end; h++) {
                float* q = mine.heads.data + r * stride + h * head_width;
                int64_t i = 0;
                for (; i + W <= 2 * C; i += W) store(q + i, elu_plus_one(load(q + i)));
                if (i < 2 * C) store_some(q + i, elu_plus_one(load_some(q + i, 2 * C - i)), 2 * C - i);
                const int64_t head = (layer * seats.rows + t.seat[r]) * shape.heads + h;
                float *z = seats.z + head * C, *y = t.y.data + r * padded_width + h * M;
                if (precision.state)
                    recur(q, q + C, q + 2 * C, C, M, static_cast<half*>(seats.s) + head * C * M, z, y);
                else
                    recur(q, q + C, q + 2 * C, C, M, static_cast<float*>(seats.s) + head * C * M, z, y);
            }
    }
};

}  // namespace WAY
