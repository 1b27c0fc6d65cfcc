"""Causal linear attention in chunks on a GPU: `chunked.py` with its sums in registers. A program is one head of one
image and walks through its chunks, so company cannot matter; sums are float32 whatever comes in.

The backward pass is two launches: from the front for the queries (eq. 13), which sums the state again, and from the
back for keys and values (eq. 14, 15). Kept for it are the inputs, the outputs and the normalisers. See README.md.
"""

from typing import Any

import torch
import triton
import triton.language as tl

from scanline.kernels.attention.reference import EPSILON

CHUNK = {torch.float32: 32, torch.float16: 64, torch.bfloat16: 64}  # positions: as many as registers hold

Tensors = tuple[torch.Tensor, ...]


def causal_linear_attention(
    phi_q: torch.Tensor,  # [B, H, N, C]
    phi_k: torch.Tensor,  # [B, H, N, C]
    v: torch.Tensor,  # [B, H, N, M]
    s: torch.Tensor | None = None,  # [B, H, C, M]
    z: torch.Tensor | None = None,  # [B, H, C]
) -> Tensors:
    """As `chunked.causal_linear_attention`, gradients included; all inputs of one type that CHUNK names."""
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
    """Any strides but the last, as slices of one projection have them."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _heads(*tensors: torch.Tensor) -> tuple[Any, ...]:
    """Each of [B, H, N, D] with its strides over images, heads and positions."""
    return tuple(argument for x in tensors for argument in (x, *x.stride()[:3]))


def _grid(q: torch.Tensor) -> tuple[int]:
    return (q.shape[0] * q.shape[1],)


def _sizes(q: torch.Tensor, v: torch.Tensor) -> tuple[Any, ...]:
    """Heads, N, C, M and the constants; a tensor core takes at least 16 of everything."""
    _, heads, length, key_width = q.shape
    blocks = (max(16, triton.next_power_of_2(width)) for width in (key_width, v.shape[-1]))
    return heads, length, key_width, v.shape[-1], EPSILON, CHUNK[q.dtype], *blocks


@triton.jit
def _dot(a, b):
    """Product with float32 sums; float32 factors count with all but their last bits."""
    return tl.dot(a, b.to(a.dtype), input_precision="tf32x3")


@triton.jit
def _rows(x, stride_b, stride_h, stride_n, heads, n, length, d, width: tl.constexpr):
    """Positions n of this program's head of x [B, H, N, width], zeros beyond the end."""
    first = x + (tl.program_id(0) // heads).to(tl.int64) * stride_b + (tl.program_id(0) % heads) * stride_h
    inside = (n[:, None] < length) & (d[None, :] < width)
    return tl.load(first + n[:, None] * stride_n + d[None, :], mask=inside, other=0.0)


@triton.jit
def _put(x, value, n, length, d, width: tl.constexpr):
    """Writes positions n of this program's head of x [B, H, N, width], contiguous."""
    first = x + tl.program_id(0).to(tl.int64) * length * width
    inside = (n[:, None] < length) & (d[None, :] < width)
    tl.store(first + n[:, None] * width + d[None, :], value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _weights_of_sums(y, normaliser, g, heads, n, length, m, value_width: tl.constexpr, epsilon: tl.constexpr):
    """G [n, M] = d loss / d numerator and h [n] = d loss / d normaliser."""
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
        scores = tl.where(n[:, None] >= n[None, :], _dot(queries, tl.trans(keys)), 0.0)
        numerator = _dot(scores.to(values.dtype), values) + _dot(queries, state)
        below = tl.sum(scores, axis=1) + tl.sum(queries.to(tl.float32) * total[None, :], axis=1)
        _put(y, numerator / (below + epsilon)[:, None], n, length, m, value_width)
        tl.store(normaliser + head * length + n, below, mask=n < length)
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
        before = n[:, None] <= n[None, :]  # key by query
        scores = tl.where(before, _dot(keys, tl.trans(queries)), 0.0)
        score_gradients = tl.where(before, _dot(values, tl.trans(weighted)) + h[None, :], 0.0)
        grad = _dot(score_gradients.to(queries.dtype), queries) + _dot(values, tl.trans(later)) + total[None, :]
        _put(grad_k, grad, n, length, c, key_width)
        grad = _dot(scores.to(weighted.dtype), weighted) + _dot(keys, later)
        _put(grad_v, grad, n, length, m, value_width)
        later += _dot(tl.trans(queries), weighted)
        total += tl.sum(queries.to(tl.float32) * h[:, None], axis=0)
