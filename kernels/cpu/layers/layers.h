// One step of the network for a tile of rows, each row being what a step predicts: from painted bytes to the parameters of
// the distribution of the next ones.
//
// A tile is worked on by a group of one or more threads. Each member owns some heads and some columns of every product;
// between two products the group waits at a barrier. Rows of a tile are runs of successive steps, each of one image: the
// recurrence takes a run in order, and to the products it makes no difference. Where a step's bytes are guesses, the steps
// after it may turn out to be wrong. What they would add to a state is kept aside, and added once it is known to be right.
#pragma once
#include <algorithm>
#include <vector>

#include "ahead.h"
#include "layers/embedding.h"
#include "arithmetic/matmul.h"
#include "layers/recurrence.h"
#include "layers/window.h"
#if defined(__wasm__)
#include "wasm/one_thread.h"
#else
#include "threads.h"
#endif

namespace ISA {

constexpr float LAYER_NORM_EPSILON = 1e-5f;
constexpr int64_t FETCHED = 6 << 20;  // bytes of a thread's states in a tile: more than an L2 of 2 MB has use for

// Successive steps of one slot's image in a pass.
struct Run {
    int64_t slot = 0;
    int64_t first = 0, rows = 0;         // in the tile
    int64_t sure = 0;                    // the first of them, before which no byte is a guess
    int64_t right = 0;                   // the first of them that turned out to be the image's own
    int64_t kept_first = 0, kept = 0;    // rows of the last pass that are not yet in the state
    double chance = 1;                   // that the last one is right
    uint8_t before[TILE * MAX_CHANNELS] = {};  // the bytes in whose place the guesses are
};

// Memory that the threads of a group share.
struct Tile {
    Array<float> x, y, hidden, parameters;  // [TILE, D | D | feed-forward or block | P], rows padded to panels
    Array<float> inputs, skip;              // [TILE, window's inputs], and [TILE, channels] padded to a panel
    // Of rows that are not sure: keys and values [L, TILE, H, C + M] of this pass and of the last one, and what the
    // convolutions keep of a pixel [E, TILE, D].
    Array<float> keys, last_keys, pixels;
    Barrier barrier;
    int64_t rows = 0, run_count = 0;
    bool is_sure = true;  // all rows are
    Run runs[TILE];
    int64_t slot[TILE], position[TILE], label[TILE];
};

// Memory that each thread has for itself.
struct Scratch {
    Array<float> normed, residual, convolved, heads, converted, scaled, distribution;
    Array<float> ahead;  // s [C, M] and z [C] of a head, which may have to be forgotten
    Array<int64_t> codec;
    Array<uint8_t> bytes, window;
    float scale[TILE];
    bool is_unfused = false;  // see Input
    Done done;
};

static inline void layer_norm(const float* x, int64_t n, const NormWeights& norm, float* out) {
    const float mean = lane_sum(n, [&](V sum, int64_t i, int64_t count) { return sum + load_partial(x + i, count); }) /
                       float(n);
    const float squares = lane_sum(n, [&](V sum, int64_t i, int64_t count) {
        const V d = load_partial(x + i, count) - mean;
        return fma(d, count < W ? first_lanes(d, count) : d, sum);
    });
    const float factor = 1 / std::sqrt(squares / float(n) + LAYER_NORM_EPSILON);
    for (int64_t i = 0; i < n; i += W) {
        const int64_t count = std::min<int64_t>(W, n - i);
        const V normed = (load_partial(x + i, count) - mean) * factor;
        store_partial(out + i, fma(normed, load_partial(&norm.weight[i], count), load_partial(&norm.bias[i], count)),
                      count);
    }
}

class Network {
  public:
    const Weights weights;

    Network(const Shape& shape, const Tensor* tensors, int64_t count, WeightType type)
        : weights(shape, tensors, count, type) {}

    void allocate(Tile& t) const {
        t.x = Array<float>(TILE * weights.padded_width);
        t.y = Array<float>(TILE * weights.padded_width);
        t.hidden = Array<float>(TILE * weights.padded_hidden);
        t.parameters = Array<float>(TILE * weights.head.width());
        t.inputs = Array<float>(TILE * weights.inputs);
        t.skip = Array<float>(TILE * weights.skip.width());
        t.keys = Array<float>(shape.layers * TILE * kept_width());
        t.last_keys = Array<float>(shape.layers * TILE * kept_width());
        if (shape.causal_conv) t.pixels = Array<float>((shape.blocks + shape.layers) * TILE * weights.width);
    }

    void allocate(Scratch& s) const {
        const int64_t widest = std::max({weights.width, weights.padded_hidden, weights.inputs});
        s.normed = Array<float>(TILE * weights.padded_width);
        s.residual = Array<float>(TILE * weights.padded_width);
        if (shape.causal_conv) s.convolved = Array<float>(TILE * weights.padded_width);
        s.heads = Array<float>(TILE * shape.heads * weights.head_width);
        s.ahead = Array<float>(shape.key_width * (shape.value_width + 1));
        s.converted = Array<float>(PANEL * widest);
        s.bytes = Array<uint8_t>(TILE * round_up(widest, 64));
        if (IN_PAIRS) s.scaled = Array<float>(TILE * std::max(widest, weights.padded_width));
        s.window = Array<uint8_t>(weights.window_bytes + W);
        s.distribution = Array<float>(distribution_scratch(shape));
        s.codec = Array<int64_t>(codec_scratch(shape));
    }

    // x of all rows of a tile: what the step reads, and its place.
    void read_in(Tile& t, Scratch& scratch, const GroupMember& member, const Slots& slots) const {
        const int64_t stride = weights.padded_width, inputs = weights.inputs;
        // rows are divided here, as a window is copied whole; the products below divide columns and read all rows
        for (int64_t r = member.rank; r < t.rows; r += member.size()) {
            const uint8_t* image = slots.images + t.slot[r] * weights.bytes;
            if (shape.reads == WINDOW) {
                const int64_t pixel = t.position[r] / shape.channels;
                read_window(weights, image, pixel, scratch.window.data, t.inputs.data + r * inputs);
                read_place(weights, pixel, t.x.data + r * stride);
            } else {
                embed(weights, image, t.position[r], t.x.data + r * stride);
            }
            if (shape.classes) add_class(weights, slots.label[t.slot[r]], t.x.data + r * stride);
        }
        member.wait();
        if (shape.reads != WINDOW) return;
        // x is the place so far, to which the input's product is added; neither product reads what the other writes, so
        // one barrier serves both, before the blocks norm whole rows of x
        multiply(t.inputs.data, inputs, t.rows, weights.input, member, scratch, {GELU, t.x.data, stride, t.x.data, stride});
        if (shape.skip)
            multiply(t.inputs.data, inputs, t.rows, weights.skip, member, scratch,
                     {NONE, nullptr, 0, t.skip.data, weights.skip.width()});
        member.wait();
        for (int64_t i = 0; i < shape.blocks; i++) {
            const BlockWeights& block = weights.blocks[i];
            const float* x = norm_rows(t.x.data, t.rows, &block.norm, scratch.normed.data);
            feed_forward(x, t, block, i, block.expand, block.contract, {NONE, t.x.data, stride, t.x.data, stride}, member,
                         scratch, slots);
        }
    }

    // All layers for the rows of a tile, from and to x. x and the states of the rows' slots change IN PLACE.
    void run_layers(Tile& t, Scratch& scratch, const GroupMember& member, const Slots& slots) const {
        for (int64_t i = 0; i < shape.layers; i++) run_layer(i, t, scratch, member, slots);
    }

    // The same of one layer.
    void run_layer(int64_t i, Tile& t, Scratch& scratch, const GroupMember& member, const Slots& slots) const {
        // Pre-norm adds to x itself and norms a copy. Post-norm norms x after each addition: the normed x is what the
        // next product reads and what its result is added to. Every member computes the whole of it for itself, which
        // costs less than a further barrier. A layer's last norm is therefore left to the layer after it.
        const bool pre = shape.pre_norm;
        const Epilogue add_to_x{NONE, pre ? t.x.data : scratch.residual.data, weights.padded_width, t.x.data,
                                weights.padded_width};
        const LayerWeights& layer = weights.layers[i];
        // heads are divided among the threads: y of a head needs nothing of other heads
        const float* x = pre ? norm_rows(t.x.data, t.rows, &layer.attention_norm, scratch.normed.data)
                             : norm_rows(t.x.data, t.rows, last_norm(i), scratch.residual.data);
        attend(i, x, t, scratch, member, slots);
        member.wait();
        // from here on columns are divided; a column needs all of the previous product, hence the barriers
        multiply(t.y.data, weights.padded_width, t.rows, layer.attention_out, member, scratch, add_to_x);
        member.wait();
        x = pre ? norm_rows(t.x.data, t.rows, &layer.feed_forward_norm, scratch.normed.data)
                : norm_rows(t.x.data, t.rows, &layer.attention_norm, scratch.residual.data);
        feed_forward(x, t, layer, shape.blocks + i, layer.feed_forward_in, layer.feed_forward_out, add_to_x, member,
                     scratch, slots);
    }

    // What comes out of the first `count` layers, once these have run: x, or where layers end with a norm, a copy.
    const float* output(int64_t count, const Tile& t, Scratch& scratch) const {
        return shape.pre_norm ? t.x.data : norm_rows(t.x.data, t.rows, last_norm(count), scratch.residual.data);
    }

    // The head's product for all rows of a tile.
    void read_out(Tile& t, Scratch& scratch, const GroupMember& member) const {
        const float* x = norm_rows(output(shape.layers, t, scratch), t.rows, &weights.final_norm, scratch.normed.data);
        multiply(x, weights.padded_width, t.rows, weights.head, member, scratch,
                 {NONE, nullptr, 0, t.parameters.data, weights.head.width()});
        member.wait();
    }

    // Returns the parameters [P] of one row, once, after read_out: with a skip, means are offsets from the references and a
    // linear function of the window.
    const float* parameters(Tile& t, int64_t row) const {
        float* p = t.parameters.data + row * weights.head.width();
        if (!shape.skip) return p;
        const int64_t C = shape.channels, K = shape.components;
        const float* references = t.inputs.data + row * weights.inputs + weights.window_bytes;
        for (int64_t c = 0; c < C; c++) {
            const float skip = t.skip.data[row * weights.skip.width() + c];
            const float base = shape.centred ? references[c] + skip : skip;
            for (int64_t k = 0; k < K; k++) p[K + k * C + c] += base;
        }
        return p;
    }

    // Adds to the states what rows of the last pass have kept aside: the member's heads.
    void add_kept(const Tile& t, const GroupMember& member, const Slots& slots) const {
        for (int64_t layer = 0; layer < shape.layers; layer++)
            for (int64_t i = 0; i < t.run_count; i++)
                for (int64_t h = member.begin(shape.heads); h < member.end(shape.heads); h++)
                    add_kept(t, t.runs[i], layer, h, state(slots, layer, t.runs[i].slot, h));
    }

    // Keeps the pixels of rows that turned out to be right, for the convolutions: the member's convolutions.
    void keep_pixels(const Tile& t, const GroupMember& member, const Slots& slots) const {
        for (int64_t conv = member.rank; conv < shape.blocks + shape.layers; conv += member.size())
            for (int64_t i = 0; i < t.run_count; i++)
                for (int64_t r = t.runs[i].first + t.runs[i].sure; r < t.runs[i].first + t.runs[i].right; r++)
                    memcpy(kept_pixel(t, slots, conv, r), pixel_aside(t, conv, r), 4 * weights.width);
    }

  private:
    const Shape& shape = weights.shape;

    // Of a network whose layers end with a norm: that of the layer before, null before the first.
    const NormWeights* last_norm(int64_t layer) const { return layer ? &weights.layers[layer - 1].feed_forward_norm : nullptr; }

    int64_t kept_width() const { return shape.heads * (shape.key_width + shape.value_width); }

    // Where the key and the value of a row and head are kept aside.
    float* keys_of(const Array<float>& keys, int64_t layer, int64_t row, int64_t h) const {
        return keys.data + (layer * TILE + row) * kept_width() + h * (shape.key_width + shape.value_width);
    }

    float* pixel_aside(const Tile& t, int64_t conv, int64_t row) const {
        return t.pixels.data + (conv * TILE + row) * weights.width;
    }
    float* kept_pixel(const Tile& t, const Slots& slots, int64_t conv, int64_t row) const {
        return ConvState::of(shape, slots, conv, t.slot[row]).at(t.position[row] / shape.channels);
    }

    HeadState state(const Slots& slots, int64_t layer, int64_t slot, int64_t h) const {
        const int64_t head = (layer * slots.count + slot) * shape.heads + h;
        return {slots.s + head * shape.key_width * shape.value_width, slots.z + head * shape.key_width};
    }

    void add_kept(const Tile& t, const Run& run, int64_t layer, int64_t h, const HeadState& state) const {
        const HeadSteps steps{keys_of(t.last_keys, layer, run.kept_first, h), kept_width(), nullptr, 0};
        recur<false>(run.kept, steps, shape.key_width, shape.value_width, state, state);
    }

    // Rows of x through the norm, if there is one; returns `out`.
    const float* norm_rows(const float* x, int64_t rows, const NormWeights* norm, float* out) const {
        for (int64_t r = 0; r < rows; r++) {
            const int64_t at = r * weights.padded_width;
            if (norm)
                layer_norm(x + at, weights.width, *norm, out + at);
            else
                memcpy(out + at, x + at, 4 * weights.width);
        }
        return out;
    }

    Input input(const float* x, int64_t stride, int64_t rows, const PackedMatrix& w, Scratch& scratch) const {
        if (w.type != INT8) {
            Input result = float_input(x, stride, rows, w, scratch.scaled.data);
            result.is_unfused = scratch.is_unfused;
            return result;
        }
        Input result{x, stride};
        result.byte_stride = round_up(w.inner, PADDED);
        result.bytes = scratch.bytes.data;
        result.scale = scratch.scale;
        for (int64_t r = 0; r < rows; r++)
            quantise(x + r * stride, w.inner, scratch.bytes.data + r * result.byte_stride, &scratch.scale[r]);
        return result;
    }

    // The member's columns of x W^T.
    void multiply(const float* x, int64_t stride, int64_t rows, const PackedMatrix& w, const GroupMember& member,
                  Scratch& scratch, const Epilogue& epilogue) const {
        matmul(input(x, stride, rows, w, scratch), rows, w, member.begin(w.panels), member.end(w.panels), epilogue,
               scratch.converted.data);
    }

    // Two products with an activation between them, of a layer or a residual block, by all members; number `conv` of those
    // that read a causal convolution.
    template <class Part>
    void feed_forward(const float* x, Tile& t, const Part& part, int64_t conv, const PackedMatrix& in, const PackedMatrix& out,
                      const Epilogue& add_to_x, const GroupMember& member, Scratch& scratch, const Slots& slots) const {
        const int64_t stride = weights.padded_hidden;
        const float* seen = x;
        if (shape.causal_conv) seen = convolve_rows(x, t, part.conv_weight.data(), conv, scratch.convolved.data, slots);
        multiply(seen, weights.padded_width, t.rows, in, member, scratch,
                 {shape.gelu ? GELU : RELU, nullptr, 0, t.hidden.data, stride,
                  shape.class_biases ? part.biases.rows.data : nullptr, part.biases.stride, t.label});
        member.wait();
        // now that every member has read what is kept, rank 0 keeps the rows of its own x
        if (shape.causal_conv && member.rank == 0)
            for (int64_t i = 0; i < t.run_count; i++)
                for (int64_t r = t.runs[i].first; r < t.runs[i].first + t.runs[i].rows; r++) {
                    const bool is_sure = r < t.runs[i].first + t.runs[i].sure;
                    memcpy(is_sure ? kept_pixel(t, slots, conv, r) : pixel_aside(t, conv, r), x + r * weights.padded_width,
                           4 * weights.width);
                }
        multiply(t.hidden.data, stride, t.rows, out, member, scratch, add_to_x);
        member.wait();
    }

    // Rows of x with their neighbours; returns `out`. The rows before one are of its own image where they have its slot.
    const float* convolve_rows(const float* x, const Tile& t, const float* conv_weight, int64_t conv, float* out,
                               const Slots& slots) const {
        int64_t before = 0;
        for (int64_t r = 0; r < t.rows; r++) {
            before = r && t.slot[r - 1] == t.slot[r] ? before + 1 : 0;
            convolve(x + r * weights.padded_width, weights.padded_width, before, ConvState::of(shape, slots, conv, t.slot[r]),
                     t.position[r] / shape.channels, shape.width, conv_weight, out + r * weights.padded_width);
        }
        return out;
    }

    // The member's heads: projections, feature map, recurrence; writes their part of y for all rows of the tile.
    void attend(int64_t layer, const float* x, Tile& t, Scratch& scratch, const GroupMember& member,
                const Slots& slots) const {
        const int64_t C = shape.key_width, M = shape.value_width, panels_per_head = weights.head_width / PANEL;
        const int64_t begin = member.begin(shape.heads), end = member.end(shape.heads);
        const int64_t stride = shape.heads * weights.head_width;
        const PackedMatrix& w = weights.layers[layer].query_key_value;
        matmul(input(x, weights.padded_width, t.rows, w, scratch), t.rows, w, begin * panels_per_head,
               end * panels_per_head, {NONE, nullptr, 0, scratch.heads.data, stride}, scratch.converted.data);
        const bool fetches = 4 * t.run_count * shape.layers * (end - begin) * C * M > FETCHED;
        for (int64_t i = 0; i < t.run_count; i++)
            for (int64_t h = begin; h < end; h++) {
                const Run& run = t.runs[i];
                if (fetches && h + 1 < end)
                    fetch(state(slots, layer, run.slot, h + 1).s, C * M);
                else if (fetches && i + 1 < t.run_count)
                    fetch(state(slots, layer, t.runs[i + 1].slot, begin).s, C * M);
                const HeadState own = state(slots, layer, run.slot, h);
                const HeadState ahead{scratch.ahead.data, scratch.ahead.data + C * M};
                add_kept(t, run, layer, h, own);
                // query and key stand side by side: one loop maps both
                float* first = scratch.heads.data + run.first * stride + h * weights.head_width;
                for (float* q = first; q < first + run.rows * stride; q += stride)
                    for (int64_t c = 0; c < 2 * C; c += W)
                        store_partial(q + c, elu_plus_one(load_partial(q + c, 2 * C - c)), 2 * C - c);
                float* y = t.y.data + run.first * weights.padded_width + h * M;
                const HeadSteps steps{first + C, stride, y, weights.padded_width};
                recur<true>(run.sure, steps, C, M, own, own);
                // rows that may be wrong leave the slot's state as it is
                recur<true>(run.rows - run.sure, steps.from(run.sure), C, M, own, ahead);
                for (int64_t r = run.sure; r < run.rows; r++)
                    memcpy(keys_of(t.keys, layer, run.first + r, h), first + r * stride + C, 4 * (C + M));
            }
    }
};

}  // namespace ISA
