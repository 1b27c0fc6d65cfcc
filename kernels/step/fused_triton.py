"""Recurrent step on a GPU, fused with the split of the projection and the feature map: one
pass over the state. A program reads the states of a few heads of one image, adds phi(k)
v^T, reads y out of them while they are in registers, and writes them back. All sums are
float32, whatever type s is stored in.

Writing is half of the traffic, so with room for K deferred steps a slot is written in every (K +
1)st step, counted from byte 0 of the image, and phi(k) and v of the steps since then are added
again by each step. These are the additions of writing in each step, in the same order: y has the
same bits, where s is float32. In 16 bits s is rounded less often.

Its reference is `reference.recurrent_step`. Its signature differs, as phi(q), phi(k) and v never
exist in memory: it takes the projection [B, 2 H C + H M], and finds the states of each row through
`slots`, where -1 costs one load. A program's result depends on its own image alone.
"""

import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.attention.reference import EPSILON
from scanline.kernels.feature_maps import feature_map as known_map
from scanline.kernels.triton.pdl import options, wait

# Numbers of s in one program, and in one of its warps: a head of 32 x 32, so that no sum crosses
# warps, no program is partly empty, and 32 programs fit an SM (sm_90: 64 registers); 8 loads of
# 16 bytes of float32 for each thread.
WARP_ELEMENTS = 1024
ELEMENTS = WARP_ELEMENTS


def fused_recurrent_step(
    projected: Tensor,  # [B, 2 H C + H M]: queries and keys before the feature map, values
    s: Tensor,  # [S, H, C, M] float32, float16 or bfloat16, changed in place
    z: Tensor,  # [S, H, C] float32, changed in place
    deferred: Tensor,  # [S, K, H (C + M)] float32, changed in place: phi(k) and v that s and z lack
    position: Tensor,  # [S] int64: the byte that comes next, step_bytes times the steps before it
    # [B] int64, all different: which of the S states each row steps; -1: nothing is done
    slots: Tensor,
    step_bytes: int = 1,
    feature_map: str = "elu",
    y: Tensor | None = None,  # [B, H M] float32, where to put the result
    chained: bool = False,  # by programmatic dependent launch: see kernels/triton/pdl.py
    elements: int = ELEMENTS,  # of s in a program; other bits for each number
    # whether all deferred steps are loaded, before it is known how many there are
    at_once: bool = False,
) -> Tensor:
    """Update s, z and deferred of the chosen slots IN PLACE as `reference.recurrent_step`, and
    return y [B, H M]; rows whose slot is -1 are not written."""
    heads, key_width, value_width = check(projected, s, z, deferred, feature_map)
    if len(projected) != len(slots):
        raise ValueError(f"projections {list(projected.shape)} do not fit {len(slots)} slots")
    if y is None:
        y = projected.new_zeros(len(slots), heads * value_width)
    block_h, block_c, block_m, warps = tile(heads, key_width, value_width, elements)
    period = deferred.shape[1] + 1  # steps from one writing of s and z to the next
    grid = (len(slots), triton.cdiv(heads, block_h))
    _step[grid](
        projected,
        s,
        z,
        deferred,
        position,
        slots,
        y,
        heads,
        key_width,
        value_width,
        period,
        step_bytes,
        EPSILON,
        feature_map,
        at_once,
        block_h,
        block_c,
        block_m,
        num_warps=warps,
        **options(chained),
    )
    return y


def check(
    projected: Tensor,
    s: Tensor,
    z: Tensor,
    deferred: Tensor,
    feature_map: str,
) -> tuple[int, int, int]:
    """Return H, C and M; ValueError where the feature map is unknown or the sizes do not fit."""
    known_map(feature_map)
    count, heads, key_width, value_width = s.shape
    deferred_width = heads * (key_width + value_width)
    projected_width = deferred_width + heads * key_width
    fits = (
        projected.shape[1] == projected_width
        and z.shape == s.shape[:3]
        and deferred.shape == (count, deferred.shape[1], deferred_width)
    )
    arrays = {"projections": projected, "s": s, "z": z, "deferred": deferred}
    if not fits:
        sizes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise ValueError(f"{sizes} do not fit")
    assert all(array.is_contiguous() for array in arrays.values())
    return heads, key_width, value_width


def tile(
    heads: int, key_width: int, value_width: int, elements: int = ELEMENTS
) -> tuple[int, int, int, int]:
    """Return how many heads, keys and values a program has, padded to powers of two, and its warps."""
    block_c = triton.next_power_of_2(key_width)
    block_m = triton.next_power_of_2(value_width)
    head_elements = block_c * block_m
    block_h = min(triton.next_power_of_2(heads), max(1, elements // head_elements))
    warps = block_h * head_elements // WARP_ELEMENTS
    return block_h, block_c, block_m, max(1, min(16, warps))


@triton.jit
def phi(x, name: tl.constexpr):
    """Return the feature map of that name, as in kernels/feature_maps.py."""
    tl.static_assert(name == "elu", "unknown feature map")
    return tl.where(x > 0, x + 1, tl.exp(x))


@triton.jit
def inputs(row, keys, values, in_keys, in_values, all_keys):
    """Load queries and keys [h, C], before the feature map, and values [h, M] from a
    `row` of the projection: the queries of all heads, `all_keys` numbers, then as many
    of their keys, then their values."""
    q = tl.load(row + keys, mask=in_keys, other=0.0)
    k = tl.load(row + all_keys + keys, mask=in_keys, other=0.0)
    v = tl.load(row + 2 * all_keys + values, mask=in_values, other=0.0)
    return q, k, v


@triton.jit
def add_deferred(state, key_sum, rows, count, all_keys, row_size, keys, values, in_keys, in_values):
    """Return s [h, C, M] and z [h, C] after the first `count` of the deferred steps at `rows`. Each
    is a row of `row_size` numbers: phi(k) of all heads, `all_keys` numbers, then their values."""
    for number in range(0, count):  # not unrolled: that takes twice the registers
        row = rows + number * row_size
        k = tl.load(row + keys, mask=in_keys, other=0.0)
        v = tl.load(row + all_keys + values, mask=in_values, other=0.0)
        state += k[:, :, None] * v[:, None, :]
        key_sum += k
    return state, key_sum


@triton.jit
def add_at_once(
    state,
    key_sum,
    rows,
    count,
    period: tl.constexpr,
    all_keys,
    row_size,
    keys,
    values,
    in_keys,
    in_values,
):
    """As add_deferred, with zeros for the steps from `count` on, which change no bit: no load
    waits for `count`, which takes longer to come than the states of few images. A head of 32
    takes 96 registers instead of 64."""
    for number in tl.static_range(period - 1):
        row = rows + number * row_size
        k = tl.load(row + keys, mask=in_keys, other=0.0)
        v = tl.load(row + all_keys + values, mask=in_values, other=0.0)
        k = tl.where(number < count, k, 0.0)
        v = tl.where(number < count, v, 0.0)
        state += k[:, :, None] * v[:, None, :]
        key_sum += k
    return state, key_sum


@triton.jit
def step(state, key_sum, q, k, v, in_keys, epsilon: tl.constexpr, feature_map: tl.constexpr):
    """Return s [h, C, M] and z [h, C] after a position (eq. 18, 19), its y [h, M] (eq. 20), and
    phi(k)."""
    k = tl.where(in_keys, phi(k, feature_map), 0.0)  # phi(0) is 1: masked loads must not count
    q = tl.where(in_keys, phi(q, feature_map), 0.0)
    state += k[:, :, None] * v[:, None, :]
    key_sum += k
    numerator = tl.sum(q[:, :, None] * state, axis=1)
    normaliser = tl.sum(q * key_sum, axis=1)
    result = numerator / (normaliser[:, None] + epsilon)
    return state, key_sum, result, k


@triton.jit
def _step(
    projected,  # [B, 2 H C + H M]
    s,  # [S, H, C, M]
    z,  # [S, H, C]
    deferred,  # [S, period - 1, H (C + M)]
    position,  # [S]
    slots,  # [B]
    y,  # [B, H M]
    heads,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    period: tl.constexpr,
    step_bytes: tl.constexpr,
    epsilon: tl.constexpr,
    feature_map: tl.constexpr,
    at_once: tl.constexpr,
    block_h: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
    chained: tl.constexpr,
):
    # A program is a block of heads [h] of one image, and holds their whole states [h, C, M] in
    # registers. Of many images, states are most of what a step moves through memory: each number is
    # loaded once and stored at most once. The slot comes from the L2: see the early reads below.
    image = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + image, cache_modifier=".cg")
    steps = tl.load(position + tl.maximum(slot, 0)) // step_bytes
    count = (steps % period).to(tl.int32)  # of the steps that are deferred

    # Where the numbers of this block's heads h, keys c and values m are in
    # one image's keys, values and state.
    h = tl.program_id(1) * block_h + tl.arange(0, block_h)
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    live_heads = tl.where(slot < 0, 0, heads)  # masks every load of an empty slot
    in_keys = (h[:, None] < live_heads) & (c[None, :] < key_width)
    in_values = (h[:, None] < live_heads) & (m[None, :] < value_width)
    in_state = in_keys[:, :, None] & (m[None, None, :] < value_width)
    keys = h[:, None] * key_width + c[None, :]
    values = h[:, None] * value_width + m[None, :]
    s_places = (
        s
        + slot * heads * key_width * value_width
        + keys[:, :, None] * value_width
        + m[None, None, :]
    )
    z_places = z + slot * heads * key_width + keys
    all_keys = heads * key_width
    row_size = heads * (key_width + value_width)
    rows = deferred + slot * (period - 1) * row_size

    # Load s and z, and add the deferred steps, which they lack. A hint that states should not evict
    # weights and activations, which are read again, from the L2; not measured.
    state = tl.load(s_places, mask=in_state, other=0.0, eviction_policy="evict_first").to(
        tl.float32
    )
    key_sum = tl.load(z_places, mask=in_keys, other=0.0)
    if at_once:
        state, key_sum = add_at_once(
            state,
            key_sum,
            rows,
            count,
            period,
            all_keys,
            row_size,
            keys,
            values,
            in_keys,
            in_values,
        )
    else:
        state, key_sum = add_deferred(
            state, key_sum, rows, count, all_keys, row_size, keys, values, in_keys, in_values
        )
    # The projection is the previous kernel's; s, z and `deferred` are read and written by
    # this kernel only, and `slots` and `position` were written before the previous kernel
    # began, so they may be fetched early.
    wait(chained)
    if slot < 0:
        return

    # Split the projection, and step (eq. 18-20).
    projection = projected + image * heads * (2 * key_width + value_width)
    q, k, v = inputs(projection, keys, values, in_keys, in_values, all_keys)
    state, key_sum, result, k = step(state, key_sum, q, k, v, in_keys, epsilon, feature_map)
    tl.store(y + image * heads * value_width + values, result, mask=in_values)

    # In the last step of a period write the state back, else defer what this step added to it.
    if count == period - 1:
        tl.store(
            s_places, state.to(s.dtype.element_ty), mask=in_state, eviction_policy="evict_first"
        )
        tl.store(z_places, key_sum, mask=in_keys)
    else:
        row = rows + count * row_size
        tl.store(row + keys, k, mask=in_keys)
        tl.store(row + all_keys + values, v, mask=in_values)
