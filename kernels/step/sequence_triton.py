"""Successive steps of the recurrence in one launch, for positions that are all known: the states stay in registers from
the first to the last. Reference: `reference.recurrent_step`, position by position.

A program has the tile of `fused_triton`, and each of its positions is that kernel's `step`, rounded where that kernel
stores states, so that y, s, z and deferred are those of as many launches of `fused_recurrent_step`. Both are compiled
separately: whether their bits are equal on a device is for the caller to check (model/backends/cuda.py does).
"""

import torch
import triton
import triton.language as tl

from scanline.kernels.attention.reference import EPSILON
from scanline.kernels.step.fused_triton import add_deferred, check, inputs, step, tile


def fused_recurrent_sequence(
    projected: torch.Tensor,  # [N B, 2 H C + H M]: row n B + b is position n of image b, as in fused_recurrent_step
    s: torch.Tensor,  # [B, H, C, M] float32, float16 or bfloat16, changed in place
    z: torch.Tensor,  # [B, H, C] float32, changed in place
    deferred: torch.Tensor,  # [B, K, H (C + M)] float32, changed in place, as in fused_recurrent_step
    at: torch.Tensor,  # [1 or more] int64: the byte of position 0, step_bytes times the steps of an image before it
    begin: torch.Tensor,  # [B] int64: the first position of each image
    end: torch.Tensor,  # [B] int64: the position after its last, at most N; where it is not above `begin`, none
    step_bytes: int = 1,
    feature_map: str = "elu",
    y: torch.Tensor | None = None,  # [N B, H M] float32, where to put the result
) -> torch.Tensor:
    """Step through positions begin..end-1 of each image, updating s, z and deferred IN PLACE. Return y [N B, H M]; rows
    of other positions are not written."""
    heads, key_width, value_width = check(projected, s, z, deferred, feature_map)
    rows, batch = len(projected), len(s)
    if not batch or rows % batch or not len(begin) == len(end) == batch:
        raise ValueError(f"{rows} rows, {len(begin)} first and {len(end)} last positions do not fit {batch} images")
    y = projected.new_zeros(rows, heads * value_width) if y is None else y
    h, c, m, warps = tile(heads, key_width, value_width)
    _sequence[(batch, triton.cdiv(heads, h))](
        projected, s, z, deferred, at, begin, end, y, batch, heads, key_width, value_width, deferred.shape[1] + 1,
        step_bytes, EPSILON, feature_map, h, c, m, num_warps=warps, enable_fp_fusion=False,
    )  # fmt: skip
    return y


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _sequence(
    projected, s, z, deferred, at, begin, end, y, batch, heads,
    key_width: tl.constexpr, value_width: tl.constexpr, every: tl.constexpr, step_bytes: tl.constexpr,
    epsilon: tl.constexpr, feature_map: tl.constexpr, block_h: tl.constexpr, block_c: tl.constexpr,
    block_m: tl.constexpr,
):  # fmt: skip
    # A program is a block of heads [h] of one image, as in fused_triton.
    image = tl.program_id(0).to(tl.int64)
    first, stop = tl.load(begin + image), tl.load(end + image)
    h = tl.program_id(1) * block_h + tl.arange(0, block_h)
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    own_heads = tl.where(first < stop, heads, 0)  # masks every load of an image without positions
    in_keys = (h[:, None] < own_heads) & (c[None, :] < key_width)
    in_values = (h[:, None] < own_heads) & (m[None, :] < value_width)
    in_state = in_keys[:, :, None] & (m[None, None, :] < value_width)
    keys = h[:, None] * key_width + c[None, :]
    values = h[:, None] * value_width + m[None, :]

    # The image's steps before its first position and up to its last, and how many of these s and z have at the end.
    before = tl.load(at) // step_bytes
    done, steps = before + first, before + stop
    written = steps // every * every

    # The state stays in registers from the first position to the last.
    states = s + image * heads * key_width * value_width + keys[:, :, None] * value_width + m[None, None, :]
    sums = z + image * heads * key_width + keys
    state = tl.load(states, mask=in_state, other=0.0).to(tl.float32)
    total = tl.load(sums, mask=in_keys, other=0.0)
    width, kept, stride = heads * key_width, heads * (key_width + value_width), heads * (2 * key_width + value_width)
    rows = deferred + image * (every - 1) * kept
    held = (done % every).to(tl.int32)
    state, total = add_deferred(state, total, rows, held, width, kept, keys, values, in_keys, in_values)
    row, last = first * batch + image, (stop - 1) * batch + image
    q, k, v = inputs(projected + row * stride, keys, values, in_keys, in_values, width)
    for number in range(done, steps):
        # The next position's inputs are on their way while this one's are computed; after the last one, its own again.
        following = projected + tl.minimum(row + batch, last) * stride
        next_q, next_k, next_v = inputs(following, keys, values, in_keys, in_values, width)
        state, total, read, k = step(state, total, q, k, v, in_keys, epsilon, feature_map)
        tl.store(y + row * heads * value_width + values, read, mask=in_values)
        # As if stored and loaded between two steps. The places beyond the state stay zero: their keys and values are.
        rounded = state.to(s.dtype.element_ty).to(tl.float32)
        state = tl.where((number + 1) % every == 0, rounded, state)
        if number + 1 == written:
            tl.store(states, state.to(s.dtype.element_ty), mask=in_state)
            tl.store(sums, total, mask=in_keys)
        if number >= written:
            tl.store(rows + (number - written) * kept + keys, k, mask=in_keys)
            tl.store(rows + (number - written) * kept + width + values, v, mask=in_values)
        row += batch
        q, k, v = next_q, next_k, next_v
