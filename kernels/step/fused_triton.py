"""Recurrent step on a GPU, fused with the split of the projection and the feature map: one pass over the state. A
program reads the states of a few heads of one image, adds phi(k) v^T, reads y out of them while they are in registers,
and writes them back. All sums are float32, whatever type s is stored in.

Writing is half of the traffic, so with room for K deferred steps a slot is written in every (K + 1)st step, counted
from byte 0 of the image, and phi(k) and v of the steps since then are added again by each step. These are the additions
of writing in each step, in the same order: y has the same bits, where s is float32. In 16 bits s is rounded less often.

Its reference is `reference.recurrent_step`. Its signature differs, as phi(q), phi(k) and v never exist in memory: it
takes the projection [B, 2 H C + H M], and finds the states of each row through `slots`, where -1 costs one load. A
program's result depends on its own image alone.
"""

import torch
import triton
import triton.language as tl

from scanline.kernels.attention.reference import EPSILON
from scanline.kernels.feature_maps import feature_map as known_map
from scanline.kernels.triton.pdl import options, wait

# Of s in one program, and in one of its warps: a head of 32 x 32, so that no sum crosses warps, no program is partly
# empty, and 32 programs fit an SM (sm_90: 64 registers); 8 loads of 16 bytes of float32 for each thread.
ELEMENTS = WARP_ELEMENTS = 1024


def fused_recurrent_step(
    projected: torch.Tensor,  # [B, 2 H C + H M]: queries and keys before the feature map, values
    s: torch.Tensor,  # [S, H, C, M] float32, float16 or bfloat16, changed in place
    z: torch.Tensor,  # [S, H, C] float32, changed in place
    deferred: torch.Tensor,  # [S, K, H (C + M)] float32, changed in place: phi(k) and v that s and z lack
    position: torch.Tensor,  # [S] int64: the byte that comes next, step_bytes times the steps before it
    slots: torch.Tensor,  # [B] int64, all different: which of the S states each row steps; -1: nothing is done
    step_bytes: int = 1,
    feature_map: str = "elu",
    y: torch.Tensor | None = None,  # [B, H M] float32, where to put the result
    chained: bool = False,  # by programmatic dependent launch: see kernels/triton/pdl.py
    elements: int = ELEMENTS,  # of s in a program; other bits for each number
    at_once: bool = False,  # whether all deferred steps are loaded, before it is known how many there are
) -> torch.Tensor:
    """Update s, z and deferred of the chosen slots IN PLACE as `reference.recurrent_step`, and return y [B, H M]; rows
    whose slot is -1 are not written."""
    heads, key_width, value_width = check(projected, s, z, deferred, feature_map)
    if len(projected) != len(slots):
        raise ValueError(f"projections {list(projected.shape)} do not fit {len(slots)} slots")
    y = projected.new_zeros(len(slots), heads * value_width) if y is None else y
    h, c, m, warps = tile(heads, key_width, value_width, elements)
    grid = (len(slots), triton.cdiv(heads, h))
    _step[grid](
        projected, s, z, deferred, position, slots, y, heads, key_width, value_width, deferred.shape[1] + 1, step_bytes,
        EPSILON, feature_map, at_once, h, c, m, num_warps=warps, **options(chained),
    )  # fmt: skip
    return y


def check(
    projected: torch.Tensor, s: torch.Tensor, z: torch.Tensor, deferred: torch.Tensor, feature_map: str
) -> tuple[int, int, int]:
    """Return H, C and M; ValueError where the feature map is unknown or the sizes do not fit."""
    known_map(feature_map)
    count, heads, key_width, value_width = s.shape
    row = heads * (key_width + value_width)
    fits = projected.shape[1] == row + heads * key_width and z.shape == s.shape[:3]
    if not fits or deferred.shape != (count, deferred.shape[1], row):
        arrays = {"projections": projected, "s": s, "z": z, "deferred": deferred}
        sizes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise ValueError(f"{sizes} do not fit")
    assert all(array.is_contiguous() for array in (projected, s, z, deferred))
    return heads, key_width, value_width


def tile(heads: int, key_width: int, value_width: int, elements: int = ELEMENTS) -> tuple[int, int, int, int]:
    """Return how many heads, keys and values a program has, padded, and its warps."""
    c, m = triton.next_power_of_2(key_width), triton.next_power_of_2(value_width)
    h = min(triton.next_power_of_2(heads), max(1, elements // (c * m)))
    return h, c, m, max(1, min(16, h * c * m // WARP_ELEMENTS))


@triton.jit
def phi(x, name: tl.constexpr):
    """Return the feature map of that name, as in kernels/feature_maps.py."""
    tl.static_assert(name == "elu", "unknown feature map")
    return tl.where(x > 0, x + 1, tl.exp(x))


@triton.jit
def inputs(first, keys, values, in_keys, in_values, width):
    """Load queries and keys [h, C], before the feature map, and values [h, M] of the projection at `first`, whose
    queries are `width` numbers."""
    q = tl.load(first + keys, mask=in_keys, other=0.0)
    k = tl.load(first + width + keys, mask=in_keys, other=0.0)
    return q, k, tl.load(first + 2 * width + values, mask=in_values, other=0.0)


@triton.jit
def add_deferred(state, total, rows, held, width, stride, keys, values, in_keys, in_values):
    """Return s [h, C, M] and z [h, C] after the first `held` of the steps at `rows`, which lie `stride` apart and begin
    with the `width` keys of all heads."""
    for number in range(0, held):  # not unrolled: that takes twice the registers
        k = tl.load(rows + number * stride + keys, mask=in_keys, other=0.0)
        v = tl.load(rows + number * stride + width + values, mask=in_values, other=0.0)
        state += k[:, :, None] * v[:, None, :]
        total += k
    return state, total


@triton.jit
def add_at_once(state, total, rows, held, every: tl.constexpr, width, stride, keys, values, in_keys, in_values):
    """As add_deferred, with zeros for the steps from `held` on, which change no bit: no load waits for `held`, which
    takes longer to come than the states of few images. A head of 32 takes 96 registers instead of 64."""
    for number in tl.static_range(every - 1):
        k = tl.load(rows + number * stride + keys, mask=in_keys, other=0.0)
        v = tl.load(rows + number * stride + width + values, mask=in_values, other=0.0)
        k, v = tl.where(number < held, k, 0.0), tl.where(number < held, v, 0.0)
        state += k[:, :, None] * v[:, None, :]
        total += k
    return state, total


@triton.jit
def step(state, total, q, k, v, in_keys, epsilon: tl.constexpr, feature_map: tl.constexpr):
    """Return s [h, C, M] and z [h, C] after a position (eq. 18, 19), what its query reads of it [h, M], and phi(k)."""
    k = tl.where(in_keys, phi(k, feature_map), 0.0)  # phi(0) is 1: masked loads must not count
    q = tl.where(in_keys, phi(q, feature_map), 0.0)
    state += k[:, :, None] * v[:, None, :]
    total += k
    numerator = tl.sum(q[:, :, None] * state, axis=1)
    normaliser = tl.sum(q * total, axis=1)
    return state, total, numerator / (normaliser[:, None] + epsilon), k


@triton.jit
def _step(
    projected, s, z, deferred, position, slots, y, heads,
    key_width: tl.constexpr, value_width: tl.constexpr, every: tl.constexpr, step_bytes: tl.constexpr,
    epsilon: tl.constexpr, feature_map: tl.constexpr, at_once: tl.constexpr, block_h: tl.constexpr,
    block_c: tl.constexpr, block_m: tl.constexpr, chained: tl.constexpr,
):  # fmt: skip
    # A program is a block of heads [h] of one image, and holds their whole states [h, C, M] in registers. Of many
    # images, states are most of what a step moves through memory: each number is loaded once and stored at most once.
    # The slot comes from the L2: see the early reads below.
    image = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + image, cache_modifier=".cg")
    held = (tl.load(position + tl.maximum(slot, 0)) // step_bytes % every).to(tl.int32)
    h = tl.program_id(1) * block_h + tl.arange(0, block_h)
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    own_heads = tl.where(slot < 0, 0, heads)  # masks every load of an empty slot
    in_keys = (h[:, None] < own_heads) & (c[None, :] < key_width)
    in_values = (h[:, None] < own_heads) & (m[None, :] < value_width)
    in_state = in_keys[:, :, None] & (m[None, None, :] < value_width)
    keys = h[:, None] * key_width + c[None, :]
    values = h[:, None] * value_width + m[None, :]
    states = s + slot * heads * key_width * value_width + keys[:, :, None] * value_width + m[None, None, :]
    sums = z + slot * heads * key_width + keys
    width, stride = heads * key_width, heads * (key_width + value_width)
    rows = deferred + slot * (every - 1) * stride
    # A hint that states should not evict weights and activations, which are read again, from the L2; not measured.
    state = tl.load(states, mask=in_state, other=0.0, eviction_policy="evict_first").to(tl.float32)
    total = tl.load(sums, mask=in_keys, other=0.0)
    if at_once:
        state, total = add_at_once(state, total, rows, held, every, width, stride, keys, values, in_keys, in_values)
    else:
        state, total = add_deferred(state, total, rows, held, width, stride, keys, values, in_keys, in_values)
    # The projection is the previous kernel's; s, z and `deferred` are read and written by this kernel only, and `slots`
    # and `position` were written before the previous kernel began, so they may be fetched early.
    wait(chained)
    if slot < 0:
        return

    # Split the projection, step (eq. 18-20), and write the state back or what was added to it.
    first = projected + image * heads * (2 * key_width + value_width)
    q, k, v = inputs(first, keys, values, in_keys, in_values, width)
    state, total, read, k = step(state, total, q, k, v, in_keys, epsilon, feature_map)
    tl.store(y + image * heads * value_width + values, read, mask=in_values)
    if held == every - 1:
        tl.store(states, state.to(s.dtype.element_ty), mask=in_state, eviction_policy="evict_first")
        tl.store(sums, total, mask=in_keys)
    else:
        tl.store(rows + held * stride + keys, k, mask=in_keys)
        tl.store(rows + held * stride + width + values, v, mask=in_values)
