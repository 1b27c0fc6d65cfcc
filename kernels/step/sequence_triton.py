"""Successive steps of the recurrence in one launch, for positions that are all known: the
states stay in registers from the first to the last. Reference:
`reference.recurrent_step`, position by position.

A program has the tile of `fused_triton`, and each of its positions is that kernel's `step`, rounded
where that kernel stores states, so that y, s, z and deferred are those of as many launches of
`fused_recurrent_step`. Both are compiled separately: whether their bits are equal on a device is
for the caller to check (model/backends/cuda.py does).
"""

import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.attention.reference import EPSILON
from scanline.kernels.step.fused_triton import add_deferred, check, inputs, step, tile


def fused_recurrent_sequence(
    # [N B, 2 H C + H M]: row n B + b is position n of image b, as in fused_recurrent_step
    projected: Tensor,
    s: Tensor,  # [B, H, C, M] float32, float16 or bfloat16, changed in place
    z: Tensor,  # [B, H, C] float32, changed in place
    deferred: Tensor,  # [B, K, H (C + M)] float32, changed in place, as in fused_recurrent_step
    # [1 or more] int64: the byte of position 0, step_bytes times the steps of an image before it
    at: Tensor,
    begin: Tensor,  # [B] int64: the first position of each image
    # [B] int64: the position after its last, at most N; where it is not above `begin`, none
    end: Tensor,
    step_bytes: int = 1,
    feature_map: str = "elu",
    y: Tensor | None = None,  # [N B, H M] float32, where to put the result
) -> Tensor:
    """Step through positions begin..end-1 of each image, updating s, z and deferred IN PLACE.
    Return y [N B, H M]; rows of other positions are not written."""
    heads, key_width, value_width = check(projected, s, z, deferred, feature_map)
    rows = len(projected)
    batch = len(s)
    one_for_each = len(begin) == len(end) == batch
    if batch == 0 or rows % batch != 0 or not one_for_each:
        raise ValueError(
            f"{rows} rows, {len(begin)} first and {len(end)} last positions do not fit {batch} images"
        )
    if y is None:
        y = projected.new_zeros(rows, heads * value_width)
    block_h, block_c, block_m, warps = tile(heads, key_width, value_width)
    period = deferred.shape[1] + 1  # steps from one writing of s and z to the next
    grid = (batch, triton.cdiv(heads, block_h))
    _sequence[grid](
        projected,
        s,
        z,
        deferred,
        at,
        begin,
        end,
        y,
        batch,
        heads,
        key_width,
        value_width,
        period,
        step_bytes,
        EPSILON,
        feature_map,
        block_h,
        block_c,
        block_m,
        num_warps=warps,
        enable_fp_fusion=False,
    )
    return y


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _sequence(
    projected,  # [N B, 2 H C + H M]
    s,  # [B, H, C, M]
    z,  # [B, H, C]
    deferred,  # [B, period - 1, H (C + M)]
    at,  # [1]
    begin,  # [B]
    end,  # [B]
    y,  # [N B, H M]
    batch,
    heads,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    period: tl.constexpr,
    step_bytes: tl.constexpr,
    epsilon: tl.constexpr,
    feature_map: tl.constexpr,
    block_h: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
    # A program is a block of heads [h] of one image, with the places of fused_triton.
    image = tl.program_id(0).to(tl.int64)
    first = tl.load(begin + image)
    stop = tl.load(end + image)
    h = tl.program_id(1) * block_h + tl.arange(0, block_h)
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    live_heads = tl.where(first < stop, heads, 0)  # masks every load of an image without positions
    in_keys = (h[:, None] < live_heads) & (c[None, :] < key_width)
    in_values = (h[:, None] < live_heads) & (m[None, :] < value_width)
    in_state = in_keys[:, :, None] & (m[None, None, :] < value_width)
    keys = h[:, None] * key_width + c[None, :]
    values = h[:, None] * value_width + m[None, :]

    # The image's steps before its first position and up to its last, and how
    # many of these s and z have at the end.
    before = tl.load(at) // step_bytes
    done = before + first
    steps = before + stop
    written = (steps // period) * period

    # The state stays in registers from the first position to the last.
    s_places = (
        s
        + image * heads * key_width * value_width
        + keys[:, :, None] * value_width
        + m[None, None, :]
    )
    z_places = z + image * heads * key_width + keys
    state = tl.load(s_places, mask=in_state, other=0.0).to(tl.float32)
    key_sum = tl.load(z_places, mask=in_keys, other=0.0)
    all_keys = heads * key_width
    row_size = heads * (key_width + value_width)
    projected_size = heads * (2 * key_width + value_width)
    rows = deferred + image * (period - 1) * row_size
    count = (done % period).to(tl.int32)
    state, key_sum = add_deferred(
        state, key_sum, rows, count, all_keys, row_size, keys, values, in_keys, in_values
    )
    row = first * batch + image
    last = (stop - 1) * batch + image
    q, k, v = inputs(projected + row * projected_size, keys, values, in_keys, in_values, all_keys)
    for number in range(done, steps):
        # The next position's inputs are on their way while this one's are
        # computed; after the last one, its own again.
        following = projected + tl.minimum(row + batch, last) * projected_size
        next_q, next_k, next_v = inputs(following, keys, values, in_keys, in_values, all_keys)
        state, key_sum, result, k = step(state, key_sum, q, k, v, in_keys, epsilon, feature_map)
        tl.store(y + row * heads * value_width + values, result, mask=in_values)
        # As if stored and loaded between two steps. The places beyond the state
        # stay zero: their keys and values are.
        rounded = state.to(s.dtype.element_ty).to(tl.float32)
        state = tl.where((number + 1) % period == 0, rounded, state)
        if number + 1 == written:
            tl.store(s_places, state.to(s.dtype.element_ty), mask=in_state)
            tl.store(z_places, key_sum, mask=in_keys)
        # What s and z lack at the end is deferred.
        if number >= written:
            deferred_row = rows + (number - written) * row_size
            tl.store(deferred_row + keys, k, mask=in_keys)
            tl.store(deferred_row + all_keys + values, v, mask=in_values)
        row += batch
        q = next_q
        k = next_k
        v = next_v
