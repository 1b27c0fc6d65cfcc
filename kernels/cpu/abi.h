// The plain C interface of the CPU kernel: the structs that cross it and the functions Python calls through ctypes.
// kernels/cpu/bindings.py mirrors the structs field by field. Raise ABI there with every change of a struct, a signature,
// the order of the tensors or any bit of the results: setup.py passes it on as SCANLINE_ABI and names the library file after it.
#pragma once
#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

// What a step reads, and the distribution of what it predicts: READS and PREDICTS of shape.py.
enum Reads { BYTE, WINDOW };
enum Predicts { PIXEL_LOGISTICS, CATEGORICAL };

constexpr int64_t MAX_CHANNELS = 4;

// Sizes and options of a network: L layers, H heads, C key width, M value width, K mixture components, D = H M.
struct Shape {
    int64_t height, width, channels, layers, heads, key_width, value_width, feed_forward, components;
    int64_t first;       // first predicted byte: 0 with a start token, else 1
    int64_t step_bytes;  // bytes that a step paints: one, or with a window the channels of a pixel
    int64_t reads, predicts;
    int64_t pre_norm, gelu, concat, axial, exp_scale;
    int64_t skip;  // whether the means are offsets from a linear function of the window
    // of a network that reads a window, as in kernels/window/reference.py
    int64_t blocks, block_width, window_rows, window_columns, centred, waves, wave_rows, wave_columns, outside;
    int64_t classes;     // of images; 0: labels are not read
    int64_t causal_conv;  // whether blocks and feed-forwards read a causal convolution: kernels/causal_conv/reference.py
    int64_t class_biases;  // whether blocks and feed-forwards have a bias for each label
};

// A contiguous float32 tensor of `size` numbers.
struct Tensor {
    const float* data;
    int64_t size;
};

// The codes that images are painted from in place of random numbers, and how far they are read: kernels/codec/coder.py.
struct Codes {
    int64_t width;        // W
    const uint8_t* code;  // [B, W], the next bytes of each slot's code, 0 behind its end
    int64_t* at;          // [B], how many of them are read
    int64_t* value;       // [B]
    int64_t* range;       // [B]; 0: the slot's image has no code
};

// The slots of a batch, B of them.
struct Slots {
    int64_t count;      // B
    float* s;           // [L, B, H, C, M]
    float* z;           // [L, B, H, C]
    float* conv_state;  // [E, B, R, D], of each convolution (of blocks, then of layers) pixel p in row p mod R; E = 0 without
    int64_t* position;  // [B], the next byte of the image in flight; N where the slot is empty or its image is done
    uint8_t* images;    // [B, N]
    const uint8_t* known;         // [B, N], 1 where the byte is given and not sampled
    double* bits;                 // [B], cost of the bytes before the position
    const int64_t *seed, *index;  // [B]
    const float* temperature;     // [B]
    const int64_t* label;         // [B], 0 for no class, k + 1 for class k
    double* known_bits;           // [B], cost of the known bytes that steps have passed
    // [B], for a guided image the slot of the same image under the other label, minus this one; 0 for none. One of the two
    // labels is 0, and both stand at one position. Bytes are drawn from the logits u + guidance (c - u), u being those of label 0;
    // of a mixture they are the logarithms of the probabilities of a byte's 256 values.
    const int64_t* partner;
    const float* guidance;  // [B]
    const Codes* codes;     // null where no image has one
};

// How far passes may paint ahead of what is known, and what they have done. A pass paints an image's next step and guesses steps
// after it: a byte that is known is itself, another is that of the painted pixels around it where these are equal. Steps are
// painted up to and with the first that differs from its guess. Guesses change the time of a call, and never a byte.
struct Ahead {
    const int64_t* stop;  // [B], of each slot the position from which on no step begins in this call; null: N
    int64_t widest;       // steps of an image in a pass at most; 1: no guesses; 0: as many as are worth their cost
    // To which the call adds, an image with two slots being one: passes of images, the steps that these computed, those of
    // them that they painted, and guesses that were wrong.
    int64_t passes, computed, painted, wrong;
};

// SCANLINE_ABI mixed with the sizes of the structs above. Python refuses a library that returns another number.
int64_t scanline_abi();

// The instruction sets the library was compiled for and this processor has, best first, separated by spaces.
const char* scanline_isas();

// Returns a network that holds its own copy of the tensors. Their order is given in kernels/cpu/bindings.py. Returns null
// and sets errno: EINVAL if `isa` is not one of scanline_isas(), or if number and sizes of the tensors are not those the
// shape needs; ENOMEM; EAGAIN if the threads cannot be started. The shape itself is not checked: see kernels/cpu/shape.py.
// weight_type: a WeightType of packing.h. Free it with scanline_destroy.
void* scanline_create(const Shape*, const Tensor* tensors, int64_t count, int64_t weight_type, int64_t threads,
                      const char* isa);
void scanline_destroy(void* network);

// Runs up to `passes` passes of those of the slots `chosen` [count] whose position is below N and their stop, each painting one
// step or more, of step_bytes bytes; of a guided image both are chosen, and the stops are equal. Of an image with a code, which
// is not guided, all bytes are painted from it. Returns 0; or -1, with nothing changed, where one of them is no slot, or its
// position, label, partner or code is none.
int64_t scanline_advance(void* network, const Slots*, const int64_t* chosen, int64_t count, int64_t passes, Ahead*);

// Runs the known bytes start .. stop - 1 of all slots, whose states stand at `start`, n whole steps, and writes the bytes'
// cost to bits [B, stop - start] and, unless they are null, the distributions' parameters to `parameters` [B, n, P], and where
// each byte's interval starts and how wide it is to `intervals` [B, stop - start, 2].
void scanline_read(void* network, const Slots*, int64_t start, int64_t stop, double* bits, float* parameters,
                   uint32_t* intervals);

// Runs the same bytes, and of the layers the first `depth` alone. Writes the layers' input, and what comes out of each of these
// layers, to `outputs` [depth + 1, B, n, D].
void scanline_read_layers(void* network, const Slots*, int64_t start, int64_t stop, int64_t depth, float* outputs);

// Copies state, image and bits of slot sources[i] to slot targets[i], for each i < count; no target is the source of
// another slot. Where both are the same, nothing is copied.
void scanline_copy_slots(void* network, const Slots*, const int64_t* sources, const int64_t* targets, int64_t count);

// Draws the bytes of an image's steps from `position` on as advance would, each from the next of the distributions'
// `parameters` [steps, P], as long as they are those of `path` [steps * step_bytes]. Returns of how many steps they are, and
// writes what the first other step has painted to `drawn` [step_bytes]. without: null, or of a guided image the parameters
// of label 0. A guided image stops before logits that are not finite, with nothing drawn. One thread at a time.
int64_t scanline_follow(void* network, const float* parameters, const float* without, const uint8_t* path, int64_t steps,
                        int64_t seed, int64_t index, int64_t position, float temperature, float guidance, uint8_t* drawn);
}
#pragma GCC visibility pop
