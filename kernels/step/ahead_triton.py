"""Successive steps of the recurrence for rows of which it is not yet known whether they are right:
`fused_recurrent_rows` steps through them with the states in registers and changes no state;
`add_rows` adds those that turned out to be right. Reference: `reference.recurrent_step`, step by
step.

As in `sequence_triton.py`, each row is the step of `fused_triton`, rounded where that kernel stores
states, so that y, s, z and deferred are those of as many launches of `fused_recurrent_step`. A state
is read once a pass, and once more and written where a period of deferred steps has ended in it.
"""

import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.attention.reference import EPSILON
from scanline.kernels.step.fused_triton import add_deferred, check, inputs, step, tile


def fused_recurrent_rows(
    projected: Tensor,  # [R, 2 H C + H M]: row first[b] + n stride[b] is step n of image b
    s: Tensor,  # [S, H, C, M] float32, float16 or bfloat16
    z: Tensor,  # [S, H, C] float32
    deferred: Tensor,  # [S, K, H (C + M)] float32
    slots: Tensor,  # [B] int64, all different: which of the S states each image has; -1: none
    begin: Tensor,  # [B] int64: the byte of its first step, step_bytes times the steps before it
    count: Tensor,  # [B] int64: its steps
    first: Tensor,  # [B] int64
    stride: Tensor,  # [B] int64
    kept: Tensor,  # [R, H (C + M)] float32, a result: phi(k) and v of each row, for `add_rows`
    step_bytes: int = 1,
    feature_map: str = "elu",
    y: Tensor | None = None,  # [R, H M] float32, where to put the result
) -> Tensor:
    """Return y [R, H M], and write `kept`; rows that are no image's are not written."""
    heads, key_width, value_width = check(projected, s, z, deferred, feature_map)
    if kept.shape != (len(projected), deferred.shape[2]):
        raise ValueError(f"kept {list(kept.shape)} do not fit projections {list(projected.shape)}")
    if y is None:
        y = projected.new_zeros(len(projected), heads * value_width)
    block_h, block_c, block_m, warps = tile(heads, key_width, value_width)
    grid = (len(slots), triton.cdiv(heads, block_h))
    _rows[grid](
        projected,
        s,
        z,
        deferred,
        slots,
        begin,
        count,
        first,
        stride,
        kept,
        y,
        heads,
        key_width,
        value_width,
        deferred.shape[1] + 1,
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


def add_rows(
    kept: Tensor,  # [L, R, H (C + M)] float32
    s: Tensor,  # [L, S, H, C, M], changed in place
    z: Tensor,  # [L, S, H, C], changed in place
    deferred: Tensor,  # [L, S, K, H (C + M)], changed in place
    slots: Tensor,  # [B] int64, as above
    begin: Tensor,  # [B] int64
    right: Tensor,  # [B] int64: how many of the image's first rows are added
    first: Tensor,  # [B] int64
    stride: Tensor,  # [B] int64
    step_bytes: int = 1,
) -> None:
    """Add the first `right` rows of each image to its states, IN PLACE, as steps do."""
    layers, count, heads, key_width, value_width = s.shape
    width = heads * (key_width + value_width)
    period = deferred.shape[2] + 1
    assert kept.shape == (layers, kept.shape[1], width)
    assert z.shape == s.shape[:4]
    assert deferred.shape == (layers, count, period - 1, width)
    assert all(array.is_contiguous() for array in (kept, s, z, deferred))
    block_h, block_c, block_m, warps = tile(heads, key_width, value_width)
    grid = (len(slots), triton.cdiv(heads, block_h), layers)
    _add_rows[grid](
        kept,
        s,
        z,
        deferred,
        slots,
        begin,
        right,
        first,
        stride,
        count,
        kept.shape[1],
        heads,
        key_width,
        value_width,
        period,
        step_bytes,
        block_h,
        block_c,
        block_m,
        num_warps=warps,
        enable_fp_fusion=False,
    )


@triton.jit
def _places(
    heads,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    block_h: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
    """Return where a program's keys, values and state are, as in fused_triton, and which it has."""
    h = tl.program_id(1) * block_h + tl.arange(0, block_h)
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    in_keys = (h[:, None] < heads) & (c[None, :] < key_width)
    in_values = (h[:, None] < heads) & (m[None, :] < value_width)
    in_state = in_keys[:, :, None] & (m[None, None, :] < value_width)
    keys = h[:, None] * key_width + c[None, :]
    values = h[:, None] * value_width + m[None, :]
    places = keys[:, :, None] * value_width + m[None, None, :]
    return keys, values, places, in_keys, in_values, in_state


@triton.jit
def _rows(
    projected,  # [R, 2 H C + H M]
    s,  # [S, H, C, M]
    z,  # [S, H, C]
    deferred,  # [S, period - 1, H (C + M)]
    slots,  # [B]
    begin,  # [B]
    count,  # [B]
    first,  # [B]
    stride,  # [B]
    kept,  # [R, H (C + M)]
    y,  # [R, H M]
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
    slot = tl.load(slots + image)
    steps = tl.load(count + image)
    before = tl.load(begin + image) // step_bytes
    row = tl.load(first + image)
    apart = tl.load(stride + image)
    if (slot < 0) | (steps == 0):
        return
    keys, values, places, in_keys, in_values, in_state = _places(
        heads, key_width, value_width, block_h, block_c, block_m
    )
    all_keys = heads * key_width
    row_size = heads * (key_width + value_width)
    projected_size = heads * (2 * key_width + value_width)

    # The state stays in registers from the first row to the last.
    state = tl.load(s + slot * all_keys * value_width + places, mask=in_state, other=0.0)
    state = state.to(tl.float32)
    key_sum = tl.load(z + slot * all_keys + keys, mask=in_keys, other=0.0)
    rows = deferred + slot * (period - 1) * row_size
    held = (before % period).to(tl.int32)
    state, key_sum = add_deferred(
        state, key_sum, rows, held, all_keys, row_size, keys, values, in_keys, in_values
    )
    last = row + (steps - 1) * apart
    q, k, v = inputs(projected + row * projected_size, keys, values, in_keys, in_values, all_keys)
    for number in range(before, before + steps):
        # The next row's inputs are on their way while this one's are computed.
        following = projected + tl.minimum(row + apart, last) * projected_size
        next_q, next_k, next_v = inputs(following, keys, values, in_keys, in_values, all_keys)
        kept_row = kept + row * row_size
        tl.store(kept_row + all_keys + values, v, mask=in_values)
        state, key_sum, result, k = step(state, key_sum, q, k, v, in_keys, epsilon, feature_map)
        tl.store(kept_row + keys, k, mask=in_keys)
        tl.store(y + row * heads * value_width + values, result, mask=in_values)
        # As if stored and loaded between two steps.
        rounded = state.to(s.dtype.element_ty).to(tl.float32)
        state = tl.where((number + 1) % period == 0, rounded, state)
        row += apart
        q = next_q
        k = next_k
        v = next_v


@triton.jit(do_not_specialize=["pool", "all_rows"])  # one program code for all pools
def _add_rows(
    kept,  # [L, R, H (C + M)]
    s,  # [L, S, H, C, M]
    z,  # [L, S, H, C]
    deferred,  # [L, S, period - 1, H (C + M)]
    slots,  # [B]
    begin,  # [B]
    right,  # [B]
    first,  # [B]
    stride,  # [B]
    pool,  # S
    all_rows,  # R
    heads,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    period: tl.constexpr,
    step_bytes: tl.constexpr,
    block_h: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    layer = tl.program_id(2).to(tl.int64)
    slot = tl.load(slots + image)
    steps = tl.load(right + image)
    before = tl.load(begin + image) // step_bytes
    row = tl.load(first + image)
    apart = tl.load(stride + image)
    if (slot < 0) | (steps == 0):
        return
    keys, values, places, in_keys, in_values, in_state = _places(
        heads, key_width, value_width, block_h, block_c, block_m
    )
    all_keys = heads * key_width
    row_size = heads * (key_width + value_width)
    place = layer * pool + slot
    s_places = s + place * all_keys * value_width + places
    z_places = z + place * all_keys + keys
    rows = deferred + place * (period - 1) * row_size
    new_row = kept + (layer * all_rows + row) * row_size

    # Only where a period ends in these steps, s and z are read and written.
    after = before + steps
    written = (after // period) * period
    if written > before:
        state = tl.load(s_places, mask=in_state, other=0.0).to(tl.float32)
        key_sum = tl.load(z_places, mask=in_keys, other=0.0)
        held = (before % period).to(tl.int32)
        state, key_sum = add_deferred(
            state, key_sum, rows, held, all_keys, row_size, keys, values, in_keys, in_values
        )
        for number in range(before, written):
            k = tl.load(new_row + keys, mask=in_keys, other=0.0)
            v = tl.load(new_row + all_keys + values, mask=in_values, other=0.0)
            state += k[:, :, None] * v[:, None, :]
            key_sum += k
            rounded = state.to(s.dtype.element_ty).to(tl.float32)
            state = tl.where((number + 1) % period == 0, rounded, state)
            new_row += apart * row_size
        tl.store(s_places, state.to(s.dtype.element_ty), mask=in_state)
        tl.store(z_places, key_sum, mask=in_keys)

    # What s and z lack is deferred.
    for number in range(tl.maximum(before, written), after):
        k = tl.load(new_row + keys, mask=in_keys, other=0.0)
        v = tl.load(new_row + all_keys + values, mask=in_values, other=0.0)
        deferred_row = rows + (number % period) * row_size
        tl.store(deferred_row + keys, k, mask=in_keys)
        tl.store(deferred_row + all_keys + values, v, mask=in_values)
        new_row += apart * row_size
