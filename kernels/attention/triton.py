"""Causal linear attention in chunks on a GPU: `chunked.py` with its sums in
registers. Reference: reference.py.

A program is one segment of one head of one image, and walks through the segment's chunks. A short
sequence is one segment; for a long one, another launch computes the state before each segment
first, so that all segments run in parallel. How a sequence is cut depends on its length alone, so
its result does not depend on the rest of the batch. Sums are float32 whatever the inputs are.

The backward pass has a walk in order for the queries (eq. 13), from the same states, and
one in reverse for keys and values (eq. 14, 15), from the sums over all later segments. It
needs the inputs, the outputs, the normalisers and the states before segments. The
derivation is in README.md, in this folder.
"""

from typing import Any

import torch
import triton
from torch import Tensor

from scanline.kernels.attention.chunked import check_shapes
from scanline.kernels.attention.reference import EPSILON
from scanline.kernels.attention.walks_triton import (
    walk_forward,
    walk_keys_values,
    walk_later_states,
    walk_queries,
    walk_states,
)

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# Positions of a chunk, warps and stages of a program, by bytes of a number and padded width: as
# many as registers allow (tests/kernels/triton/compile.py). Those of 128 float32 numbers do not,
# and spill; on an A100 those of 64 do, too.
TILES = {
    (4, 16): (16, 4, 1),
    (4, 32): (16, 4, 1),
    (4, 64): (16, 8, 2),
    (4, 128): (16, 8, 1),
    (2, 16): (32, 4, 2),
    (2, 32): (32, 4, 2),
    (2, 64): (32, 4, 1),
    (2, 128): (32, 8, 2),
}
GRADIENT_WARPS = 8  # of float32: with four, those of keys need more registers than there are
LONG = 512  # positions: longer sequences are cut into segments
SEGMENT = 128  # positions: a multiple of all chunks

Tensors = tuple[Tensor, ...]


def causal_linear_attention(
    phi_q: Tensor,  # [B, H, N, C]
    phi_k: Tensor,  # [B, H, N, C]
    v: Tensor,  # [B, H, N, M]
    s: Tensor | None = None,  # [B, H, C, M]
    z: Tensor | None = None,  # [B, H, C]
) -> Tensors:
    """Return what `chunked.causal_linear_attention` does, with gradients. All inputs have the same
    dtype, of DTYPES."""
    check_shapes(phi_q, phi_k, v)
    batch, heads, _, key_width = phi_q.shape
    if not phi_q.dtype == phi_k.dtype == v.dtype or v.dtype not in DTYPES:
        raise ValueError(f"queries, keys and values are {phi_q.dtype}, {phi_k.dtype} and {v.dtype}")
    if s is None:
        s = v.new_zeros(batch, heads, key_width, v.shape[-1], dtype=torch.float32)
    if z is None:
        z = v.new_zeros(batch, heads, key_width, dtype=torch.float32)
    outputs: Tensors = _Attention.apply(phi_q, phi_k, v, s, z)
    return outputs


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        s: Tensor,
        z: Tensor,
    ) -> Tensors:
        q = _dense(q)
        k = _dense(k)
        v = _dense(v)
        s = s.float().contiguous()
        z = z.float().contiguous()
        y = v.new_empty(v.shape)
        normalisers = s.new_empty(q.shape[:3])
        s_last = torch.empty_like(s)
        z_last = torch.empty_like(z)
        segments, sizes, options = _launch(q, v)
        # A short sequence begins from the given state; each segment of
        # a long one from a state of its own.
        s_before = s
        z_before = z
        if segments > 1:
            s_before, z_before = _for_segments(segments, s, z)
            walk_states[_heads_of(q)](*_strided(k, v), s, z, s_before, z_before, *sizes, **options)
        ctx.save_for_backward(q, k, v, s_before, z_before, y, normalisers)
        outputs = (y, normalisers, s_last, z_last)
        grid = (*_heads_of(q), segments)
        walk_forward[grid](*_strided(q, k, v), s_before, z_before, *outputs, *sizes, **options)
        ctx.mark_non_differentiable(s_last, z_last)
        return y, s_last, z_last

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, s_before, z_before, y, normalisers = ctx.saved_tensors
        grad_y = gradients[0].to(v.dtype).contiguous()
        of_outputs = (y, normalisers, grad_y)
        grad_q = q.new_empty(q.shape)
        grad_k = k.new_empty(k.shape)
        grad_v = v.new_empty(v.shape)
        segments, sizes, options = _launch(q, v)
        if v.dtype == torch.float32:
            options["num_warps"] = GRADIENT_WARPS
        # Queries: the walk of the forward pass again.
        grid = (*_heads_of(q), segments)
        walk_queries[grid](
            *_strided(k, v), s_before, z_before, *of_outputs, grad_q, *sizes, **options
        )
        # Keys and values: the walk in reverse, from the sums over later
        # segments, which are zero for the only one.
        if segments > 1:
            r_after = torch.empty_like(s_before)
            t_after = torch.empty_like(z_before)
            walk_later_states[_heads_of(q)](
                *_strided(q), *of_outputs, r_after, t_after, *sizes, **options
            )
        else:
            r_after = torch.zeros_like(s_before)
            t_after = torch.zeros_like(z_before)
        inputs = (*_strided(q, k, v), r_after, t_after, *of_outputs)
        narrow = max(q.shape[-1], v.shape[-1]) <= 32
        if narrow and v.dtype != torch.float32:
            walk_keys_values[grid](*inputs, grad_k, grad_v, *sizes, **options)
        else:
            # A program that computes both gradients needs more registers than there are.
            walk_keys_values[grid](*inputs, grad_k, None, *sizes, **options)
            walk_keys_values[grid](*inputs, None, grad_v, *sizes, **options)
        return grad_q, grad_k, grad_v, None, None


def _dense(x: Tensor) -> Tensor:
    """Return x with a last stride of 1; other strides may be any, as those of slices of one
    projection are."""
    if x.stride(-1) == 1:
        return x
    return x.contiguous()


def _strided(*tensors: Tensor) -> tuple[Any, ...]:
    """Return each [B, H, N, D] tensor followed by its strides over images, heads and positions."""
    arguments: list[Any] = []
    for tensor in tensors:
        arguments.append(tensor)
        arguments.extend(tensor.stride()[:3])
    return tuple(arguments)


def _heads_of(q: Tensor) -> tuple[int]:
    """Return a grid of one program for each head of each image."""
    batch, heads = q.shape[:2]
    return (batch * heads,)


def _launch(q: Tensor, v: Tensor) -> tuple[int, tuple[Any, ...], dict[str, Any]]:
    """Return the number of segments, the sizes that all kernels take, and the options of a launch.
    Tiles are at least 16 wide, as a tensor core needs them."""
    _, heads, length, key_width = q.shape
    value_width = v.shape[-1]
    if length > LONG:
        segment = SEGMENT
        segments = triton.cdiv(length, SEGMENT)
    else:
        segment = max(length, 1)
        segments = 1
    block_c = max(16, triton.next_power_of_2(key_width))
    block_m = max(16, triton.next_power_of_2(value_width))
    chunk, warps, stages = TILES[q.element_size(), max(block_c, block_m)]
    sizes = (heads, length, segment, key_width, value_width, EPSILON, chunk, block_c, block_m)
    return segments, sizes, {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}


def _for_segments(segments: int, s: Tensor, z: Tensor) -> Tensors:
    """Return memory for a state s [B, H, C, M] and z [B, H, C] of each segment: [B, H, segments,
    ...]."""
    batch, heads, key_width, value_width = s.shape
    s_of_segments = s.new_empty(batch, heads, segments, key_width, value_width)
    z_of_segments = z.new_empty(batch, heads, segments, key_width)
    return s_of_segments, z_of_segments
