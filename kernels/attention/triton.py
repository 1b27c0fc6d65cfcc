"""Causal linear attention in chunks on a GPU: `chunked.py` with its sums in registers. Reference: reference.py.

A program is one segment of one head of one image, and walks through the segment's chunks. A short sequence is one
segment; of a long one, another launch computes the state before each segment first, so that all segments run side by
side. How a sequence is cut depends on its length alone, so its result does not depend on what else is in the batch;
sums are float32 whatever the inputs are. The backward pass has one walk from the front for the queries (eq. 13), from
the same states, and one from the back for keys and values (eq. 14, 15), from the sums over all later segments. It needs
the inputs, the outputs, the normalisers and the states before segments. The derivation is in README.md, in this folder.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from scanline.kernels.attention.reference import EPSILON

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# Positions of a chunk, warps and stages of a program, by bytes of a number and padded width: as many as registers allow
# (tests/kernels/triton/compile.py); those of 128 float32 numbers do not, and spill.
TILES = {(4, 16): (16, 4, 1), (4, 32): (16, 4, 1), (4, 64): (16, 8, 2), (4, 128): (16, 8, 1)}
TILES |= {(2, 16): (64, 4, 2), (2, 32): (64, 4, 2), (2, 64): (64, 4, 2), (2, 128): (32, 8, 2)}
LONG = 512  # positions: longer sequences are cut into segments
SEGMENT = 128  # positions: a multiple of all chunks

Tensors = tuple[torch.Tensor, ...]


def causal_linear_attention(
    phi_q: torch.Tensor,  # [B, H, N, C]
    phi_k: torch.Tensor,  # [B, H, N, C]
    v: torch.Tensor,  # [B, H, N, M]
    s: torch.Tensor | None = None,  # [B, H, C, M]
    z: torch.Tensor | None = None,  # [B, H, C]
) -> Tensors:
    """As `chunked.causal_linear_attention`, with gradients. All inputs have one of DTYPES."""
    batch, heads, _, key_width = phi_q.shape
    if phi_k.shape != phi_q.shape or v.shape[:3] != phi_q.shape[:3]:
        raise ValueError(f"queries {list(phi_q.shape)}, keys {list(phi_k.shape)} and values {list(v.shape)} do not fit")
    if not phi_q.dtype == phi_k.dtype == v.dtype or v.dtype not in DTYPES:
        raise ValueError(f"queries, keys and values are {phi_q.dtype}, {phi_k.dtype} and {v.dtype}")
    s = v.new_zeros(batch, heads, key_width, v.shape[-1], dtype=torch.float32) if s is None else s
    z = v.new_zeros(batch, heads, key_width, dtype=torch.float32) if z is None else z
    outputs: Tensors = _Attention.apply(phi_q, phi_k, v, s, z)
    return outputs


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, s: torch.Tensor, z: torch.Tensor
    ) -> Tensors:
        q, k, v = map(_dense, (q, k, v))
        s, z = s.float().contiguous(), z.float().contiguous()
        y, normaliser = v.new_empty(v.shape), s.new_empty(q.shape[:3])
        s_last, z_last = torch.empty_like(s), torch.empty_like(z)
        segments, sizes, options = _launch(q, v)
        s_before, z_before = s, z
        if segments > 1:
            s_before, z_before = _for_segments(segments, s, z)
            _states[_heads_of(q)](*_strided(k, v), s, z, s_before, z_before, *sizes, **options)
        ctx.save_for_backward(q, k, v, s_before, z_before, y, normaliser)
        _forward[(*_heads_of(q), segments)](
            *_strided(q, k, v), s_before, z_before, y, normaliser, s_last, z_last, *sizes, **options
        )
        ctx.mark_non_differentiable(s_last, z_last)
        return y, s_last, z_last

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, s_before, z_before, y, normaliser = ctx.saved_tensors
        g = gradients[0].to(v.dtype).contiguous()
        grad_q, grad_k, grad_v = (x.new_empty(x.shape) for x in (q, k, v))
        segments, sizes, options = _launch(q, v)
        grid = (*_heads_of(q), segments)
        _backward_queries[grid](*_strided(k, v), s_before, z_before, y, normaliser, g, grad_q, *sizes, **options)
        if segments > 1:
            s_after, z_after = torch.empty_like(s_before), torch.empty_like(z_before)
            _later_states[_heads_of(q)](*_strided(q), y, normaliser, g, s_after, z_after, *sizes, **options)
        else:
            s_after, z_after = torch.zeros_like(s_before), torch.zeros_like(z_before)
        # One launch for each gradient where a program that computes both needs more registers than there are.
        narrow = v.dtype != torch.float32 and max(q.shape[-1], v.shape[-1]) <= 64
        both = ((grad_k, grad_v),) if narrow else ((grad_k, None), (None, grad_v))
        for results in both:
            _backward_keys_values[grid](
                *_strided(q, k, v), s_after, z_after, y, normaliser, g, *results, *sizes, **options
            )
        return grad_q, grad_k, grad_v, None, None


def _dense(x: torch.Tensor) -> torch.Tensor:
    """Returns x with a last stride of 1; other strides may be any, as those of slices of one projection are."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _strided(*tensors: torch.Tensor) -> tuple[Any, ...]:
    """Returns each [B, H, N, D] tensor followed by its strides over images, heads and positions."""
    return tuple(argument for x in tensors for argument in (x, *x.stride()[:3]))


def _heads_of(q: torch.Tensor) -> tuple[int]:
    """Returns a grid of one program for each head of each image."""
    return (q.shape[0] * q.shape[1],)


def _launch(q: torch.Tensor, v: torch.Tensor) -> tuple[int, tuple[Any, ...], dict[str, Any]]:
    """Returns the number of segments, the sizes that all kernels take, and the options of a launch. Tiles are at least
    16 wide, as a tensor core needs them."""
    _, heads, length, key_width = q.shape
    segments = triton.cdiv(length, SEGMENT) if length > LONG else 1
    blocks = [max(16, triton.next_power_of_2(width)) for width in (key_width, v.shape[-1])]
    segment = SEGMENT if segments > 1 else max(length, 1)
    chunk, warps, stages = TILES[q.element_size(), max(blocks)]
    sizes = (heads, length, segment, key_width, v.shape[-1], EPSILON, chunk, *blocks)
    return segments, sizes, {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}


def _for_segments(segments: int, s: torch.Tensor, z: torch.Tensor) -> Tensors:
    """Returns memory for a state s [B, H, C, M] and z [B, H, C] of each segment: [B, H, segments, ...]."""
    batch, heads, *sizes = s.shape
    return s.new_empty(batch, heads, segments, *sizes), z.new_empty(batch, heads, segments, *sizes[:1])


@triton.jit
def _dot(a, b):
    """Returns a b with float32 sums. Three TF32 products keep all but the last bits of float32 factors."""
    return tl.dot(a, b.to(a.dtype), input_precision="tf32x3")


@triton.jit
def _rows(x, stride_b, stride_h, stride_n, heads, n, length, d, width: tl.constexpr):
    """Loads positions n of this program's head of x [B, H, N, width]; zero beyond the end."""
    first = x + (tl.program_id(0) // heads).to(tl.int64) * stride_b + (tl.program_id(0) % heads) * stride_h
    inside = (n[:, None] < length) & (d[None, :] < width)
    return tl.load(first + n[:, None] * stride_n + d[None, :], mask=inside, other=0.0)


@triton.jit
def _put(x, value, n, length, d, width: tl.constexpr):
    """Stores positions n of this program's head of x [B, H, N, width], contiguous."""
    first = x + tl.program_id(0).to(tl.int64) * length * width
    inside = (n[:, None] < length) & (d[None, :] < width)
    tl.store(first + n[:, None] * width + d[None, :], value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _weights_of_sums(y, normaliser, g, heads, n, length, m, value_width: tl.constexpr, epsilon: tl.constexpr):
    """Returns G [n, M] = d loss / d numerator and h [n] = d loss / d normaliser.

    y = numerator / normaliser, so with g = d loss / d y: G = g / normaliser and h = -sum over M of G y.
    """
    stride = length * value_width
    gradient = _rows(g, heads * stride, stride, value_width, heads, n, length, m, value_width)
    outputs = _rows(y, heads * stride, stride, value_width, heads, n, length, m, value_width)
    below = tl.load(normaliser + tl.program_id(0).to(tl.int64) * length + n, mask=n < length, other=1.0)
    weighted = gradient.to(tl.float32) / (below + epsilon)[:, None]
    return weighted.to(gradient.dtype), -tl.sum(weighted * outputs.to(tl.float32), axis=1)


@triton.jit
def _state_places(s, z, index, c, m, key_width: tl.constexpr, value_width: tl.constexpr):
    """Returns where the state of that number is in s [n, C, M] and z [n, C]."""
    places = s + index * key_width * value_width + c[:, None] * value_width + m[None, :]
    return places, z + index * key_width + c


@triton.jit(do_not_specialize=["length", "segment"])  # one program code for all lengths
def _states(
    k, k_b, k_h, k_n, v, v_b, v_h, v_n, s, z, s_before, z_before,
    heads, length, segment, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    # The state before each segment, from the front.
    head = tl.program_id(0).to(tl.int64)
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    in_keys = c < key_width
    in_state = in_keys[:, None] & (m[None, :] < value_width)
    states, totals = _state_places(s, z, head, c, m, key_width, value_width)
    state, total = tl.load(states, mask=in_state, other=0.0), tl.load(totals, mask=in_keys, other=0.0)
    segments = tl.cdiv(length, segment)
    for start in range(0, length, chunk):
        stored = c < tl.where(start % segment == 0, key_width, 0)
        states, totals = _state_places(
            s_before, z_before, head * segments + start // segment, c, m, key_width, value_width
        )
        tl.store(states, state, mask=stored[:, None] & (m[None, :] < value_width))
        tl.store(totals, total, mask=stored)
        n = start + tl.arange(0, chunk)
        keys = _rows(k, k_b, k_h, k_n, heads, n, length, c, key_width)
        values = _rows(v, v_b, v_h, v_n, heads, n, length, m, value_width)
        state += _dot(tl.trans(keys), values)
        total += tl.sum(keys.to(tl.float32), axis=0)


@triton.jit(do_not_specialize=["length", "segment"])
def _later_states(
    q, q_b, q_h, q_n, y, normaliser, g, s_after, z_after,
    heads, length, segment, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    # The sums of phi(q_j) G_j^T and of phi(q_j) h_j after each segment, from the back.
    head = tl.program_id(0).to(tl.int64)
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    later, total = tl.zeros((block_c, block_m), tl.float32), tl.zeros((block_c,), tl.float32)
    segments, chunks = tl.cdiv(length, segment), tl.cdiv(length, chunk)
    for i in range(0, chunks):
        start = (chunks - 1 - i) * chunk
        ends = (start + chunk >= length) | ((start + chunk) % segment == 0)
        stored = c < tl.where(ends, key_width, 0)
        states, totals = _state_places(
            s_after, z_after, head * segments + start // segment, c, m, key_width, value_width
        )
        tl.store(states, later, mask=stored[:, None] & (m[None, :] < value_width))
        tl.store(totals, total, mask=stored)
        n = start + tl.arange(0, chunk)
        queries = _rows(q, q_b, q_h, q_n, heads, n, length, c, key_width)
        weighted, h = _weights_of_sums(y, normaliser, g, heads, n, length, m, value_width, epsilon)
        later += _dot(tl.trans(queries), weighted)
        total += tl.sum(queries.to(tl.float32) * h[:, None], axis=0)


@triton.jit(do_not_specialize=["length", "segment"])
def _forward(
    q, q_b, q_h, q_n, k, k_b, k_h, k_n, v, v_b, v_h, v_n, s, z, y, normaliser, s_last, z_last,
    heads, length, segment, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    # The state before the segment's first chunk stays in registers until its last one.
    head, begin = tl.program_id(0).to(tl.int64), tl.program_id(1) * segment
    end = tl.minimum(begin + segment, length)
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    in_keys = c < key_width
    in_state = in_keys[:, None] & (m[None, :] < value_width)
    own = head * tl.num_programs(1) + tl.program_id(1)
    states, totals = _state_places(s, z, own, c, m, key_width, value_width)
    state, total = tl.load(states, mask=in_state, other=0.0), tl.load(totals, mask=in_keys, other=0.0)
    for start in range(begin, end, chunk):
        n = start + tl.arange(0, chunk)
        queries = _rows(q, q_b, q_h, q_n, heads, n, length, c, key_width)
        keys = _rows(k, k_b, k_h, k_n, heads, n, length, c, key_width)
        values = _rows(v, v_b, v_h, v_n, heads, n, length, m, value_width)
        # Earlier chunks contribute through the state, this one through its causal scores.
        scores = tl.where(n[:, None] >= n[None, :], _dot(queries, tl.trans(keys)), 0.0)
        numerator = _dot(scores.to(values.dtype), values) + _dot(queries, state)
        below = tl.sum(scores, axis=1) + tl.sum(queries.to(tl.float32) * total[None, :], axis=1)
        # The backward pass divides by the normaliser, which y alone does not give back.
        _put(y, numerator / (below + epsilon)[:, None], n, length, m, value_width)
        tl.store(normaliser + head * length + n, below, mask=n < length)
        # Only now, for the next chunk. Positions beyond the end are zeros and add nothing.
        state += _dot(tl.trans(keys), values)
        total += tl.sum(keys.to(tl.float32), axis=0)
    states, totals = _state_places(s_last, z_last, head, c, m, key_width, value_width)
    stored = c < tl.where(end == length, key_width, 0)
    tl.store(states, state, mask=stored[:, None] & (m[None, :] < value_width))
    tl.store(totals, total, mask=stored)


@triton.jit(do_not_specialize=["length", "segment"])
def _backward_queries(
    k, k_b, k_h, k_n, v, v_b, v_h, v_n, s, z, y, normaliser, g, grad_q,
    heads, length, segment, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    # A query's gradient needs the state of its position: the same walk as forward, without storing N states.
    head, begin = tl.program_id(0).to(tl.int64), tl.program_id(1) * segment
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    in_keys = c < key_width
    own = head * tl.num_programs(1) + tl.program_id(1)
    states, totals = _state_places(s, z, own, c, m, key_width, value_width)
    state = tl.load(states, mask=in_keys[:, None] & (m[None, :] < value_width), other=0.0)
    total = tl.load(totals, mask=in_keys, other=0.0)
    for start in range(begin, tl.minimum(begin + segment, length), chunk):
        n = start + tl.arange(0, chunk)
        keys = _rows(k, k_b, k_h, k_n, heads, n, length, c, key_width)
        values = _rows(v, v_b, v_h, v_n, heads, n, length, m, value_width)
        weighted, h = _weights_of_sums(y, normaliser, g, heads, n, length, m, value_width, epsilon)
        # eq. 13: keys of this chunk, weighted by G V^T + h 1^T, and those before it through (s, z).
        scores = tl.where(n[:, None] >= n[None, :], _dot(weighted, tl.trans(values)) + h[:, None], 0.0)
        gradient = _dot(scores.to(keys.dtype), keys) + _dot(weighted, tl.trans(state)) + h[:, None] * total[None, :]
        _put(grad_q, gradient, n, length, c, key_width)
        state += _dot(tl.trans(keys), values)
        total += tl.sum(keys.to(tl.float32), axis=0)


@triton.jit(do_not_specialize=["length", "segment"])
def _backward_keys_values(
    q, q_b, q_h, q_n, k, k_b, k_h, k_n, v, v_b, v_h, v_n, s_after, z_after, y, normaliser, g, grad_k, grad_v,
    heads, length, segment, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    # A key counts in every later query, so this walk begins at the segment's last chunk.
    head, begin = tl.program_id(0).to(tl.int64), tl.program_id(1) * segment
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    in_keys = c < key_width
    own = head * tl.num_programs(1) + tl.program_id(1)
    states, totals = _state_places(s_after, z_after, own, c, m, key_width, value_width)
    later = tl.load(states, mask=in_keys[:, None] & (m[None, :] < value_width), other=0.0)
    total = tl.load(totals, mask=in_keys, other=0.0)
    chunks = tl.cdiv(tl.minimum(segment, length - begin), chunk)
    for i in range(0, chunks):
        n = begin + (chunks - 1 - i) * chunk + tl.arange(0, chunk)
        queries = _rows(q, q_b, q_h, q_n, heads, n, length, c, key_width)
        keys = _rows(k, k_b, k_h, k_n, heads, n, length, c, key_width)
        values = _rows(v, v_b, v_h, v_n, heads, n, length, m, value_width)
        weighted, h = _weights_of_sums(y, normaliser, g, heads, n, length, m, value_width, epsilon)
        # Both score matrices are key by query, transposed to those of the forward pass: no product needs a transpose.
        before = n[:, None] <= n[None, :]
        if grad_k is not None:  # eq. 14: queries of this chunk, and later ones through their sums
            scores = tl.where(before, _dot(values, tl.trans(weighted)) + h[None, :], 0.0)
            grad = _dot(scores.to(queries.dtype), queries) + _dot(values, tl.trans(later)) + total[None, :]
            _put(grad_k, grad, n, length, c, key_width)
        if grad_v is not None:  # eq. 15, with the same two parts
            scores = tl.where(before, _dot(keys, tl.trans(queries)), 0.0)
            grad = _dot(scores.to(weighted.dtype), weighted) + _dot(keys, later)
            _put(grad_v, grad, n, length, m, value_width)
        later += _dot(tl.trans(queries), weighted)
        total += tl.sum(queries.to(tl.float32) * h[:, None], axis=0)
