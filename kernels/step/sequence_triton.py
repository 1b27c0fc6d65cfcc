"""Successive steps of the recurrence in one launch, for positions that are all known: the states stay in registers from
the first to the last. Reference: `reference.recurrent_step`, position by position.

A program has the tile of `fused_triton`, and each of its positions is that kernel's `step`, rounded as states are
stored, so that y, s and z are those of as many launches of `fused_recurrent_step`. Both are compiled separately:
whether their bits are equal on a device is for the caller to check (model/backends/cuda.py does).
"""

import torch
import triton
import triton.language as tl

from scanline.kernels.attention.reference import EPSILON
from scanline.kernels.feature_maps import feature_map as known_map
from scanline.kernels.step.fused_triton import inputs, step, tile


def fused_recurrent_sequence(
    projected: torch.Tensor,  # [N B, 2 H C + H M]: row n B + b is position n of image b, as in fused_recurrent_step
    s: torch.Tensor,  # [B, H, C, M] float32, float16 or bfloat16, changed in place
    z: torch.Tensor,  # [B, H, C] float32, changed in place
    begin: torch.Tensor,  # [B] int64: the first position of each image
    end: torch.Tensor,  # [B] int64: the position after its last, at most N; where it is not above `begin`, none
    feature_map: str = "elu",
    y: torch.Tensor | None = None,  # [N B, H M] float32, where to put the result
) -> torch.Tensor:
    """Step through positions begin..end-1 of each image, updating s and z IN PLACE. Return y [N B, H M]; rows of other
    positions are not written."""
    batch, heads, key_width, value_width = s.shape
    known_map(feature_map)
    rows, width = projected.shape
    if width != heads * (2 * key_width + value_width) or z.shape != s.shape[:3] or not batch or rows % batch:
        raise ValueError(f"projections {list(projected.shape)}, s {list(s.shape)} and z {list(z.shape)} do not fit")
    if not len(begin) == len(end) == batch:
        raise ValueError(f"{len(begin)} first and {len(end)} last positions do not fit {batch} images")
    assert projected.is_contiguous()
    assert s.is_contiguous()
    assert z.is_contiguous()
    y = projected.new_zeros(rows, heads * value_width) if y is None else y
    h, c, m, warps = tile(heads, key_width, value_width)
    _sequence[(batch, triton.cdiv(heads, h))](
        projected, s, z, begin, end, y, batch, heads, key_width, value_width, EPSILON, feature_map, h, c, m,
        num_warps=warps, enable_fp_fusion=False,
    )  # fmt: skip
    return y


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _sequence(
    projected,
    s,
    z,
    begin,
    end,
    y,
    batch,
    heads,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    epsilon: tl.constexpr,
    feature_map: tl.constexpr,
    block_h: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
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

    # The state stays in registers from the first position to the last.
    states = s + image * heads * key_width * value_width + keys[:, :, None] * value_width + m[None, None, :]
    sums = z + image * heads * key_width + keys
    state = tl.load(states, mask=in_state, other=0.0).to(tl.float32)
    total = tl.load(sums, mask=in_keys, other=0.0)
    width, stride = heads * key_width, heads * (2 * key_width + value_width)
    row, last = first * batch + image, (stop - 1) * batch + image
    q, k, v = inputs(projected + row * stride, keys, values, in_keys, in_values, width)
    for _ in range(first, stop):
        # The next position's inputs are on their way while this one's are computed; after the last one, its own again.
        following = projected + tl.minimum(row + batch, last) * stride
        next_q, next_k, next_v = inputs(following, keys, values, in_keys, in_values, width)
        state, total, read = step(state, total, q, k, v, in_keys, epsilon, feature_map)
        tl.store(y + row * heads * value_width + values, read, mask=in_values)
        # As if stored and loaded between two steps. The places beyond the state stay zero: their keys and values are.
        state = state.to(s.dtype.element_ty).to(tl.float32)
        row += batch
        q, k, v = next_q, next_k, next_v
    tl.store(states, state.to(s.dtype.element_ty), mask=in_state)
    tl.store(sums, total, mask=in_keys)
