"""Causal linear attention of a layer's projection on a GPU, with gradients, as one operator of torch: graphs of
torch.compile do not end at it. Reference: `feature_maps.elu_plus_one` of queries and keys, then `chunked.py`.

It reads queries, keys and values where the projection has them, and writes one gradient of it. A program is one segment
of one head of one image. One launch computes each segment's own sums; a program adds up those of the segments before it
(backwards, of those after it), then walks through its chunks as `walks_triton.py` does. The derivation is in README.md,
in this folder. A weight w_j of position j multiplies its key for later queries, not for its own.
"""

import torch
import triton
import triton.language as tl

from scanline.kernels.attention.reference import EPSILON
from scanline.kernels.attention.walks_triton import _dot, _places, _weights_of_sums

SEGMENT, CHUNK = 128, 32  # positions


def causal_attention_of_projection(
    projected: torch.Tensor,  # [B, N, 2 H C + H M]: queries, keys and values before the feature map
    heads: int,
    key_width: int,
    weight: torch.Tensor | None = None,  # [B, N] float32
) -> torch.Tensor:
    """Return y [B, N, H M], of the projection's type."""
    y: torch.Tensor = _attention(projected, weight, heads, key_width)[0]
    return y


@torch.library.custom_op("scanline::causal_attention_of_projection", mutates_args=())
def _attention(
    projected: torch.Tensor, weight: torch.Tensor | None, heads: int, key_width: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return y, the normalisers [B, H, N], and the sums over each segment, [B, H, segments, C, M] and [.., C]."""
    projected = projected.contiguous()
    y, normaliser, s, z = _outputs(projected, heads, key_width)
    weight = None if weight is None else weight.contiguous()
    _launch(_segment_sums, projected, weight, s, z, heads=heads, key_width=key_width)
    _launch(_attend, projected, weight, s, z, y, normaliser, heads=heads, key_width=key_width)
    return y, normaliser, s, z


@torch.library.custom_op("scanline::causal_attention_of_projection_backward", mutates_args=())
def _gradient(
    g: torch.Tensor,  # [B, N, H M]: of y
    projected: torch.Tensor,
    weight: torch.Tensor | None,
    y: torch.Tensor,
    normaliser: torch.Tensor,
    s: torch.Tensor,
    z: torch.Tensor,
    heads: int,
    key_width: int,
) -> torch.Tensor:
    projected, g = projected.contiguous(), g.contiguous()
    weight = None if weight is None else weight.contiguous()
    s_after, z_after, grad = torch.empty_like(s), torch.empty_like(z), torch.empty_like(projected)
    given = projected, weight, y, normaliser, g
    _launch(_later_sums, *given, s_after, z_after, heads=heads, key_width=key_width)
    _launch(_query_gradients, *given, s, z, grad, heads=heads, key_width=key_width)
    _launch(_key_value_gradients, *given, s_after, z_after, grad, heads=heads, key_width=key_width)
    return grad


def _outputs(
    projected: torch.Tensor, heads: int, key_width: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    batch, length, _ = projected.shape
    values = projected.shape[2] - 2 * heads * key_width
    state = batch, heads, triton.cdiv(length, SEGMENT), key_width
    new = projected.new_empty
    return (
        new(batch, length, values),
        new(batch, heads, length, dtype=torch.float32),
        new(*state, values // heads, dtype=torch.float32),
        new(*state, dtype=torch.float32),
    )


@_attention.register_fake
def _(projected, weight, heads, key_width):
    return _outputs(projected, heads, key_width)


@_gradient.register_fake
def _(g, projected, weight, y, normaliser, s, z, heads, key_width):
    return torch.empty_like(projected, memory_format=torch.contiguous_format)


def _save(ctx, inputs, output):
    projected, weight, *ctx.sizes = inputs
    ctx.save_for_backward(projected, weight, *output)


def _backward(ctx, g, *_):
    return _gradient(g, *ctx.saved_tensors, *ctx.sizes), None, None, None


_attention.register_autograd(_backward, setup_context=_save)


def run_once(device: torch.device, heads: int, key_width: int, value_width: int) -> None:
    """Run all kernels on a few positions."""
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16  # which Triton's interpreter cannot multiply
    projected = torch.ones(1, 8, heads * (2 * key_width + value_width), device=device, dtype=dtype)
    y = causal_attention_of_projection(projected.requires_grad_(), heads, key_width)
    torch.autograd.grad(y.sum(), projected)


def _launch(kernel: triton.JITFunction, projected: torch.Tensor, *tensors: object, heads: int, key_width: int) -> None:
    batch, length, width = projected.shape
    value_width = width // heads - 2 * key_width
    blocks = [max(16, triton.next_power_of_2(size)) for size in (key_width, value_width)]
    kernel[(batch * heads, triton.cdiv(length, SEGMENT))](
        projected, *tensors, heads, length, key_width, value_width, EPSILON, SEGMENT, CHUNK, *blocks,
        num_warps=4, num_stages=1,
    )  # fmt: skip


@triton.jit
def _rows(x, heads, n, length, width, offset, d, size: tl.constexpr):
    """Load columns offset + d, d < size, of positions n of this program's image from x [B, N, width], else zero."""
    row = (tl.program_id(0) // heads).to(tl.int64) * length + n
    inside = (n < length)[:, None] & (d < size)[None, :]
    return tl.load(x + row[:, None] * width + offset + d[None, :], mask=inside, other=0.0)


@triton.jit
def _put(x, value, heads, n, length, width, offset, d, size: tl.constexpr):
    """Store what `_rows` loads."""
    row = (tl.program_id(0) // heads).to(tl.int64) * length + n
    inside = (n < length)[:, None] & (d < size)[None, :]
    tl.store(x + row[:, None] * width + offset + d[None, :], value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _phi(x, n, length, d, size: tl.constexpr):
    """Return elu(x) + 1 of rows that `_rows` has loaded, and its derivative, both float32; zero beyond the end."""
    inside = (n < length)[:, None] & (d < size)[None, :]
    slope = tl.where(inside, tl.exp(tl.minimum(x.to(tl.float32), 0.0)), 0.0)
    return tl.maximum(x.to(tl.float32), 0.0) + slope, slope


@triton.jit
def _weights(weight, heads, n, length):
    """Return how often the keys of positions n [n] count for later queries."""
    counts = tl.full(n.shape, 1.0, tl.float32)
    if weight is not None:
        row = (tl.program_id(0) // heads).to(tl.int64) * length + n
        counts = tl.load(weight + row, mask=n < length, other=0.0)
    return counts


@triton.jit
def _sum_of(s, z, first, end, c, m, key_width: tl.constexpr, value_width: tl.constexpr):
    """Return the sums [C, M] and [C] over segments first..end-1."""
    in_keys = c < key_width
    state = tl.zeros((c.shape[0], m.shape[0]), tl.float32)
    total = tl.zeros((c.shape[0],), tl.float32)
    own = tl.program_id(0).to(tl.int64) * tl.num_programs(1)
    for segment in range(first, end):
        states, totals = _places(s, z, own + segment, c, m, key_width, value_width)
        state += tl.load(states, mask=in_keys[:, None] & (m < value_width)[None, :], other=0.0)
        total += tl.load(totals, mask=in_keys, other=0.0)
    return state, total


@triton.jit
def _put_sums(s, z, state, total, c, m, key_width: tl.constexpr, value_width: tl.constexpr):
    own = tl.program_id(0).to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
    states, totals = _places(s, z, own, c, m, key_width, value_width)
    tl.store(states, state, mask=(c < key_width)[:, None] & (m < value_width)[None, :])
    tl.store(totals, total, mask=c < key_width)


@triton.jit(do_not_specialize=["length"])
def _segment_sums(
    projected, weight, s, z, heads, length, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, segment: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    head, begin = tl.program_id(0) % heads, tl.program_id(1) * segment
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    width = heads * (2 * key_width + value_width)
    # The sums stay in registers over all chunks and are stored once. Both add rounded keys, so that numerators
    # and normalisers count the same ones.
    state, total = tl.zeros((block_c, block_m), tl.float32), tl.zeros((block_c,), tl.float32)
    for start in range(begin, tl.minimum(begin + segment, length), chunk):
        n = start + tl.arange(0, chunk)
        values = _rows(projected, heads, n, length, width, 2 * heads * key_width + head * value_width, m, value_width)
        raw = _rows(projected, heads, n, length, width, (heads + head) * key_width, c, key_width)
        keys, _ = _phi(raw, n, length, c, key_width)
        keys = (keys * _weights(weight, heads, n, length)[:, None]).to(values.dtype)
        state += _dot(tl.trans(keys), values)
        total += tl.sum(keys.to(tl.float32), axis=0)
    _put_sums(s, z, state, total, c, m, key_width, value_width)


@triton.jit(do_not_specialize=["length"])
def _attend(
    projected, weight, s, z, y, normaliser, heads, length, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, segment: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    head, begin = tl.program_id(0) % heads, tl.program_id(1) * segment
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    width = heads * (2 * key_width + value_width)
    # The state before a chunk, in registers. A program adds up earlier segments' sums itself, without another launch.
    state, total = _sum_of(s, z, 0, tl.program_id(1), c, m, key_width, value_width)
    for start in range(begin, tl.minimum(begin + segment, length), chunk):
        n = start + tl.arange(0, chunk)
        values = _rows(projected, heads, n, length, width, 2 * heads * key_width + head * value_width, m, value_width)
        raw = _rows(projected, heads, n, length, width, head * key_width, c, key_width)
        queries = _phi(raw, n, length, c, key_width)[0].to(values.dtype)
        raw = _rows(projected, heads, n, length, width, (heads + head) * key_width, c, key_width)
        keys, _ = _phi(raw, n, length, c, key_width)
        counts = _weights(weight, heads, n, length)
        # Earlier chunks contribute through the state, this one through its scores, where a query's own key counts once.
        factor = tl.where(n[:, None] > n[None, :], counts[None, :], tl.where(n[:, None] == n[None, :], 1.0, 0.0))
        scores = _dot(queries, tl.trans(keys.to(values.dtype))) * factor
        numerator = _dot(scores.to(values.dtype), values) + _dot(queries, state)
        below = tl.sum(scores, axis=1) + tl.sum(queries.to(tl.float32) * total[None, :], axis=1)
        result = numerator / (below + epsilon)[:, None]
        _put(y, result, heads, n, length, heads * value_width, head * value_width, m, value_width)
        tl.store(normaliser + tl.program_id(0).to(tl.int64) * length + n, below, mask=n < length)
        keys = (keys * counts[:, None]).to(values.dtype)
        state += _dot(tl.trans(keys), values)
        total += tl.sum(keys.to(tl.float32), axis=0)


@triton.jit(do_not_specialize=["length"])
def _later_sums(
    projected, weight, y, normaliser, g, s, z,
    heads, length, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, segment: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    # The sums of phi(q_j) G_j^T and of phi(q_j) h_j over a segment, which keys before it need.
    head, begin = tl.program_id(0) % heads, tl.program_id(1) * segment
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    width = heads * (2 * key_width + value_width)
    depth = heads * value_width
    later, total = tl.zeros((block_c, block_m), tl.float32), tl.zeros((block_c,), tl.float32)
    for start in range(begin, tl.minimum(begin + segment, length), chunk):
        n = start + tl.arange(0, chunk)
        raw = _rows(projected, heads, n, length, width, head * key_width, c, key_width)
        weighted, h = _weights_of_sums(y, normaliser, g, value_width, depth, heads, n, length, m, value_width, epsilon)
        queries = _phi(raw, n, length, c, key_width)[0].to(weighted.dtype)
        later += _dot(tl.trans(queries), weighted)
        total += tl.sum(queries.to(tl.float32) * h[:, None], axis=0)
    _put_sums(s, z, later, total, c, m, key_width, value_width)


@triton.jit(do_not_specialize=["length"])
def _query_gradients(
    projected, weight, y, normaliser, g, s, z, grad,
    heads, length, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, segment: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    head, begin = tl.program_id(0) % heads, tl.program_id(1) * segment
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    width = heads * (2 * key_width + value_width)
    depth = heads * value_width
    of_query, of_key = head * key_width, (heads + head) * key_width
    of_value = 2 * heads * key_width + head * value_width
    # In order (eq. 13): keys of the chunk weighted by G V^T + h 1^T, those before it through the state.
    state, total = _sum_of(s, z, 0, tl.program_id(1), c, m, key_width, value_width)
    for start in range(begin, tl.minimum(begin + segment, length), chunk):
        n = start + tl.arange(0, chunk)
        values = _rows(projected, heads, n, length, width, of_value, m, value_width)
        keys, _ = _phi(_rows(projected, heads, n, length, width, of_key, c, key_width), n, length, c, key_width)
        _, slope = _phi(_rows(projected, heads, n, length, width, of_query, c, key_width), n, length, c, key_width)
        weighted, h = _weights_of_sums(y, normaliser, g, value_width, depth, heads, n, length, m, value_width, epsilon)
        counts = _weights(weight, heads, n, length)
        factor = tl.where(n[:, None] > n[None, :], counts[None, :], tl.where(n[:, None] == n[None, :], 1.0, 0.0))
        scores = (_dot(weighted, tl.trans(values)) + h[:, None]) * factor
        gradient = _dot(scores.to(values.dtype), keys) + _dot(weighted, tl.trans(state)) + h[:, None] * total[None, :]
        _put(grad, gradient * slope, heads, n, length, width, of_query, c, key_width)
        keys = (keys * counts[:, None]).to(values.dtype)
        state += _dot(tl.trans(keys), values)
        total += tl.sum(keys.to(tl.float32), axis=0)


@triton.jit(do_not_specialize=["length"])
def _key_value_gradients(
    projected, weight, y, normaliser, g, s_after, z_after, grad,
    heads, length, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, segment: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    head, begin = tl.program_id(0) % heads, tl.program_id(1) * segment
    end = tl.minimum(begin + segment, length)
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    width = heads * (2 * key_width + value_width)
    depth = heads * value_width
    of_query, of_key = head * key_width, (heads + head) * key_width
    of_value = 2 * heads * key_width + head * value_width
    # In reverse (eq. 14, 15): queries of the chunk, and later ones through their sums.
    later, total = _sum_of(s_after, z_after, tl.program_id(1) + 1, tl.num_programs(1), c, m, key_width, value_width)
    chunks = tl.cdiv(end - begin, chunk)
    for i in range(0, chunks):
        n = begin + (chunks - 1 - i) * chunk + tl.arange(0, chunk)
        values = _rows(projected, heads, n, length, width, of_value, m, value_width)
        keys, slope = _phi(_rows(projected, heads, n, length, width, of_key, c, key_width), n, length, c, key_width)
        queries, _ = _phi(_rows(projected, heads, n, length, width, of_query, c, key_width), n, length, c, key_width)
        keys, queries = keys.to(values.dtype), queries.to(values.dtype)
        weighted, h = _weights_of_sums(y, normaliser, g, value_width, depth, heads, n, length, m, value_width, epsilon)
        counts = _weights(weight, heads, n, length)
        factor = tl.where(n[:, None] < n[None, :], counts[:, None], tl.where(n[:, None] == n[None, :], 1.0, 0.0))
        scores = (_dot(values, tl.trans(weighted)) + h[None, :]) * factor
        beyond = _dot(values, tl.trans(later)) + total[None, :]
        gradient = (_dot(scores.to(values.dtype), queries) + counts[:, None] * beyond) * slope
        _put(grad, gradient, heads, n, length, width, of_key, c, key_width)
        scores = _dot(keys, tl.trans(queries)) * factor
        gradient = _dot(scores.to(values.dtype), weighted) + counts[:, None] * _dot(keys, later)
        _put(grad, gradient, heads, n, length, width, of_value, m, value_width)
        later += _dot(tl.trans(queries), weighted)
        total += tl.sum(queries.to(tl.float32) * h[:, None], axis=0)
