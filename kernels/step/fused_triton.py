"""The recurrent step on a GPU: one pass over the state. A program reads the states of a few heads of one image,
adds phi(k) v^T, reads y out of them while they are in registers, and writes them back.

Refuses to know what a row is: `rows` says which state each projection belongs to, and a negative one costs one
load. What a program computes depends on its own image alone. All sums are float32, whatever s rests in.
"""

import torch
import triton
import triton.language as tl

from scanline.kernels.attention.reference import EPSILON
from scanline.kernels.feature_maps import feature_map as known_map
from scanline.kernels.triton.pdl import options, wait

ELEMENTS = 4096  # of s in one program: 16 KB of float32 in flight, 8 loads of 16 bytes for each of 128 threads
WARPS = 4


def recurrent_step(
    projected: torch.Tensor,  # [B, 2 H C + H M]: queries and keys before the feature map, values
    s: torch.Tensor,  # [R, H, C, M] float32, float16 or bfloat16, changed in place
    z: torch.Tensor,  # [R, H, C] float32, changed in place
    rows: torch.Tensor,  # [B] int64, all different: the row of s and z each one steps; nothing is done where negative
    feature_map: str = "elu",
    y: torch.Tensor | None = None,  # [B, H M] float32, where to put the result
    chained: bool = False,  # to the launches around it: see kernels/handover
) -> torch.Tensor:
    """As `reference.recurrent_step` for the chosen rows: s and z are updated IN PLACE; returns y [B, H M], whose
    rows of negative `rows` hold what they held."""
    _, heads, key_width, value_width = s.shape
    known_map(feature_map)
    if projected.shape != (len(rows), heads * (2 * key_width + value_width)) or z.shape != s.shape[:3]:
        raise ValueError(f"projections {list(projected.shape)}, s {list(s.shape)} and z {list(z.shape)} do not fit")
    assert projected.is_contiguous()
    assert s.is_contiguous()
    assert z.is_contiguous()
    y = projected.new_zeros(len(rows), heads * value_width) if y is None else y
    c, m = triton.next_power_of_2(key_width), triton.next_power_of_2(value_width)
    h = min(triton.next_power_of_2(heads), max(1, ELEMENTS // (c * m)))
    grid = (len(rows), triton.cdiv(heads, h))
    warps = WARPS * max(1, min(4, c * m // ELEMENTS))
    _step[grid](
        projected, s, z, rows, y, heads, key_width, value_width, EPSILON, feature_map, h, c, m, num_warps=warps,
        **options(chained),
    )  # fmt: skip
    return y


@triton.jit
def phi(x, name: tl.constexpr):
    """The feature map of that name, as in kernels/feature_maps.py."""
    tl.static_assert(name == "elu", "unknown feature map")
    return tl.where(x > 0, x + 1, tl.exp(x))


@triton.jit
def _step(
    projected,
    s,
    z,
    rows,
    y,
    heads,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    epsilon: tl.constexpr,
    feature_map: tl.constexpr,
    block_h: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
    chained: tl.constexpr,
):
    image = tl.program_id(0).to(tl.int64)
    row = tl.load(rows + image)
    h = tl.program_id(1) * block_h + tl.arange(0, block_h)
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    own_heads = tl.where(row < 0, 0, heads)  # none where the row is nobody's
    in_keys = (h[:, None] < own_heads) & (c[None, :] < key_width)
    in_values = (h[:, None] < own_heads) & (m[None, :] < value_width)
    in_state = in_keys[:, :, None] & (m[None, None, :] < value_width)
    keys = h[:, None] * key_width + c[None, :]
    values = h[:, None] * value_width + m[None, :]

    states = s + row * heads * key_width * value_width + keys[:, :, None] * value_width + m[None, None, :]
    sums = z + row * heads * key_width + keys
    state = tl.load(states, mask=in_state, other=0.0).to(tl.float32)
    total = tl.load(sums, mask=in_keys, other=0.0)
    wait(chained)  # for the projection; the state is this kernel's own, and `rows` older than the launch before
    if row < 0:
        return
    first = projected + image * heads * (2 * key_width + value_width)
    q = phi(tl.load(first + keys, mask=in_keys, other=0.0), feature_map)
    k = phi(tl.load(first + heads * key_width + keys, mask=in_keys, other=0.0), feature_map)
    v = tl.load(first + 2 * heads * key_width + values, mask=in_values, other=0.0)
    q = tl.where(in_keys, q, 0.0)  # phi(0) is 1

    state += k[:, :, None] * v[:, None, :]
    total += k
    tl.store(states, state.to(s.dtype.element_ty), mask=in_state)
    tl.store(sums, total, mask=in_keys)
    numerator = tl.sum(q[:, :, None] * state, axis=1)
    normaliser = tl.sum(q * total, axis=1)
    tl.store(y + image * heads * value_width + values, numerator / (normaliser[:, None] + epsilon), mask=in_values)
