"""Causal linear attention in chunks on a GPU: `chunked.py` with its sums in registers. Reference: reference.py.

A program is one head of one image and walks through its chunks, so its result does not depend on what else is in the
batch; sums are float32 whatever the inputs are. The backward pass is two launches: one from the front for the queries
(eq. 13), which computes the state again, and one from the back for keys and values (eq. 14, 15). It needs the inputs,
the outputs and the normalisers. The derivation is in README.md, in this folder.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from scanline.kernels.attention.reference import EPSILON

CHUNK = {torch.float32: 32, torch.float16: 64, torch.bfloat16: 64}  # positions; as many as fit the registers

Tensors = tuple[torch.Tensor, ...]


def causal_linear_attention(
    phi_q: torch.Tensor,  # [B, H, N, C]
    phi_k: torch.Tensor,  # [B, H, N, C]
    v: torch.Tensor,  # [B, H, N, M]
    s: torch.Tensor | None = None,  # [B, H, C, M]
    z: torch.Tensor | None = None,  # [B, H, C]
) -> Tensors:
    """As `chunked.causal_linear_attention`, with gradients. All inputs have one dtype, a key of CHUNK."""
    batch, heads, _, key_width = phi_q.shape
    if phi_k.shape != phi_q.shape or v.shape[:3] != phi_q.shape[:3]:
        raise ValueError(f"queries {list(phi_q.shape)}, keys {list(phi_k.shape)} and values {list(v.shape)} do not fit")
    if not phi_q.dtype == phi_k.dtype == v.dtype or v.dtype not in CHUNK:
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
        _forward[_grid(q)](*_heads(q, k, v), s, z, y, normaliser, s_last, z_last, *_sizes(q, v))
        ctx.save_for_backward(q, k, v, s, z, y, normaliser)
        ctx.mark_non_differentiable(s_last, z_last)
        return y, s_last, z_last

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, s, z, y, normaliser = ctx.saved_tensors
        g = gradients[0].to(v.dtype).contiguous()
        grad_q, grad_k, grad_v = (x.new_empty(x.shape) for x in (q, k, v))
        _backward_queries[_grid(q)](*_heads(q, k, v), s, z, y, normaliser, g, grad_q, *_sizes(q, v))
        _backward_keys_values[_grid(q)](*_heads(q, k, v), y, normaliser, g, grad_k, grad_v, *_sizes(q, v))
        return grad_q, grad_k, grad_v, None, None


def _dense(x: torch.Tensor) -> torch.Tensor:
    """Returns x with a last stride of 1; other strides may be any, as those of slices of one projection are."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _heads(*tensors: torch.Tensor) -> tuple[Any, ...]:
    """Returns each [B, H, N, D] tensor followed by its strides over images, heads and positions."""
    return tuple(argument for x in tensors for argument in (x, *x.stride()[:3]))


def _grid(q: torch.Tensor) -> tuple[int]:
    return (q.shape[0] * q.shape[1],)


def _sizes(q: torch.Tensor, v: torch.Tensor) -> tuple[Any, ...]:
    """Returns heads, N, C, M and the constants. Tiles are at least 16 wide, as a tensor core needs them."""
    _, heads, length, key_width = q.shape
    blocks = (max(16, triton.next_power_of_2(width)) for width in (key_width, v.shape[-1]))
    return heads, length, key_width, v.shape[-1], EPSILON, CHUNK[q.dtype], *blocks


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
def _forward(
    q, q_b, q_h, q_n, k, k_b, k_h, k_n, v, v_b, v_h, v_n, s, z, y, normaliser, s_last, z_last,
    heads, length, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    # The state before the first chunk stays in registers until the last one.
    head = tl.program_id(0).to(tl.int64)
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    states = head * key_width * value_width + c[:, None] * value_width + m[None, :]
    in_state = (c[:, None] < key_width) & (m[None, :] < value_width)
    state = tl.load(s + states, mask=in_state, other=0.0)
    total = tl.load(z + head * key_width + c, mask=c < key_width, other=0.0)
    for start in range(0, length, chunk):
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
    tl.store(s_last + states, state, mask=in_state)
    tl.store(z_last + head * key_width + c, total, mask=c < key_width)


@triton.jit
def _backward_queries(
    q, q_b, q_h, q_n, k, k_b, k_h, k_n, v, v_b, v_h, v_n, s, z, y, normaliser, g, grad_q,
    heads, length, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    # A query's gradient needs the state of its position: the same walk as forward, without storing N states.
    head = tl.program_id(0).to(tl.int64)
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    states = head * key_width * value_width + c[:, None] * value_width + m[None, :]
    state = tl.load(s + states, mask=(c[:, None] < key_width) & (m[None, :] < value_width), other=0.0)
    total = tl.load(z + head * key_width + c, mask=c < key_width, other=0.0)
    for start in range(0, length, chunk):
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


@triton.jit
def _backward_keys_values(
    q, q_b, q_h, q_n, k, k_b, k_h, k_n, v, v_b, v_h, v_n, y, normaliser, g, grad_k, grad_v,
    heads, length, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    # A key counts in every later query, so this walk begins at the last chunk.
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    later = tl.zeros((block_c, block_m), tl.float32)  # sum of phi(q_j) G_j^T over later chunks
    total = tl.zeros((block_c,), tl.float32)  # and of phi(q_j) h_j
    chunks = tl.cdiv(length, chunk)
    for i in range(0, chunks):
        n = (chunks - 1 - i) * chunk + tl.arange(0, chunk)
        queries = _rows(q, q_b, q_h, q_n, heads, n, length, c, key_width)
        keys = _rows(k, k_b, k_h, k_n, heads, n, length, c, key_width)
        values = _rows(v, v_b, v_h, v_n, heads, n, length, m, value_width)
        weighted, h = _weights_of_sums(y, normaliser, g, heads, n, length, m, value_width, epsilon)
        # Both score matrices are key by query, transposed to those of the forward pass: no product needs a transpose.
        before = n[:, None] <= n[None, :]
        scores = tl.where(before, _dot(keys, tl.trans(queries)), 0.0)
        score_gradients = tl.where(before, _dot(values, tl.trans(weighted)) + h[None, :], 0.0)
        # eq. 14: queries of this chunk, and later ones through their sums.
        grad = _dot(score_gradients.to(queries.dtype), queries) + _dot(values, tl.trans(later)) + total[None, :]
        _put(grad_k, grad, n, length, c, key_width)
        # eq. 15, with the same two parts.
        grad = _dot(scores.to(weighted.dtype), weighted) + _dot(keys, later)
        _put(grad_v, grad, n, length, m, value_width)
        later += _dot(tl.trans(queries), weighted)
        total += tl.sum(queries.to(tl.float32) * h[:, None], axis=0)
