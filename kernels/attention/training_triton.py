"""Causal linear attention of a layer's projection on a GPU, with gradients, as one operator of
torch: graphs of torch.compile do not end at it. Reference: `feature_maps.elu_plus_one` of
queries and keys, then `chunked.py`.

It reads queries, keys and values where the projection has them, and writes one gradient of it. A
program is one segment of one head of one image. One launch computes each segment's own sums; a
program adds up those of the segments before it (backwards, of those after it), then walks through
its chunks as `walks_triton.py` does. The derivation is in README.md, in this folder. A weight w_j
of position j multiplies its key for later queries, not for its own.
"""

from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.attention.reference import EPSILON
from scanline.kernels.attention.walks_triton import (
    _add_keys,
    _add_queries,
    _dot,
    _places,
    _sum_gradients,
)

SEGMENT = 128  # positions
CHUNK = 32


def causal_attention_of_projection(
    projected: Tensor,  # [B, N, 2 H C + H M]: queries, keys and values before the feature map
    heads: int,
    key_width: int,
    weight: Tensor | None = None,  # [B, N] float32
) -> Tensor:
    """Return y [B, N, H M], of the projection's type."""
    y: Tensor = _attention(projected, weight, heads, key_width)[0]
    return y


@torch.library.custom_op("scanline::causal_attention_of_projection", mutates_args=())
def _attention(
    projected: Tensor, weight: Tensor | None, heads: int, key_width: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return y, the normalisers [B, H, N], and the sums over each segment, [B, H, segments, C, M]
    and [.., C]."""
    projected = projected.contiguous()
    if weight is not None:
        weight = weight.contiguous()
    y, normalisers, s, z = _outputs(projected, heads, key_width)
    launch = partial(_launch, heads=heads, key_width=key_width)
    launch(_segment_sums, projected, weight, s, z)
    launch(_attend, projected, weight, s, z, y, normalisers)
    return y, normalisers, s, z


@torch.library.custom_op("scanline::causal_attention_of_projection_backward", mutates_args=())
def _gradient(
    grad_y: Tensor,  # [B, N, H M]
    projected: Tensor,
    weight: Tensor | None,
    y: Tensor,
    normalisers: Tensor,
    s: Tensor,
    z: Tensor,
    heads: int,
    key_width: int,
) -> Tensor:
    projected = projected.contiguous()
    grad_y = grad_y.contiguous()
    if weight is not None:
        weight = weight.contiguous()
    r_after = torch.empty_like(s)
    t_after = torch.empty_like(z)
    grad = torch.empty_like(projected)
    inputs = (projected, weight, y, normalisers, grad_y)
    launch = partial(_launch, heads=heads, key_width=key_width)
    launch(_later_sums, *inputs, r_after, t_after)
    launch(_query_gradients, *inputs, s, z, grad)
    launch(_key_value_gradients, *inputs, r_after, t_after, grad)
    return grad


def _outputs(
    projected: Tensor, heads: int, key_width: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    batch, length, width = projected.shape
    all_values = width - 2 * heads * key_width
    segments = triton.cdiv(length, SEGMENT)
    y = projected.new_empty(batch, length, all_values)
    new_sums = partial(projected.new_empty, dtype=torch.float32)
    normalisers = new_sums((batch, heads, length))
    s = new_sums((batch, heads, segments, key_width, all_values // heads))
    z = new_sums((batch, heads, segments, key_width))
    return y, normalisers, s, z


@_attention.register_fake
def _(projected, weight, heads, key_width):
    return _outputs(projected, heads, key_width)


@_gradient.register_fake
def _(grad_y, projected, weight, y, normalisers, s, z, heads, key_width):
    return torch.empty_like(projected, memory_format=torch.contiguous_format)


def _save(ctx, inputs, output):
    projected, weight, *ctx.sizes = inputs
    ctx.save_for_backward(projected, weight, *output)


def _backward(ctx, grad_y, *_):
    grad = _gradient(grad_y, *ctx.saved_tensors, *ctx.sizes)
    return grad, None, None, None


_attention.register_autograd(_backward, setup_context=_save)


def run_once(device: torch.device, heads: int, key_width: int, value_width: int) -> None:
    """Run all kernels on a few positions."""
    # which Triton's interpreter cannot multiply
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    projected = torch.ones(1, 8, heads * (2 * key_width + value_width), device=device, dtype=dtype)
    y = causal_attention_of_projection(projected.requires_grad_(), heads, key_width)
    torch.autograd.grad(y.sum(), projected)


def _launch(
    kernel: triton.JITFunction, projected: Tensor, *tensors: object, heads: int, key_width: int
) -> None:
    batch, length, width = projected.shape
    value_width = width // heads - 2 * key_width
    block_c = max(16, triton.next_power_of_2(key_width))
    block_m = max(16, triton.next_power_of_2(value_width))
    grid = (batch * heads, triton.cdiv(length, SEGMENT))
    sizes = (heads, length, key_width, value_width, EPSILON, SEGMENT, CHUNK, block_c, block_m)
    kernel[grid](projected, *tensors, *sizes, num_warps=4, num_stages=1)


@triton.jit
def _rows(x, heads, n, length, width, offset, d, size: tl.constexpr):
    """Load columns offset + d, d < size, of positions n of this program's image from x [B, N,
    width], else zero."""
    image = (tl.program_id(0) // heads).to(tl.int64)
    row = image * length + n
    inside = (n < length)[:, None] & (d < size)[None, :]
    return tl.load(x + row[:, None] * width + offset + d[None, :], mask=inside, other=0.0)


@triton.jit
def _put(x, value, heads, n, length, width, offset, d, size: tl.constexpr):
    """Store what `_rows` loads."""
    image = (tl.program_id(0) // heads).to(tl.int64)
    row = image * length + n
    inside = (n < length)[:, None] & (d < size)[None, :]
    tl.store(
        x + row[:, None] * width + offset + d[None, :], value.to(x.dtype.element_ty), mask=inside
    )


@triton.jit
def _phi(x, n, length, d, size: tl.constexpr):
    """Return elu(x) + 1 of rows that `_rows` has loaded, and its derivative, both float32; zero
    beyond the end."""
    inside = (n < length)[:, None] & (d < size)[None, :]
    slope = tl.where(inside, tl.exp(tl.minimum(x.to(tl.float32), 0.0)), 0.0)
    features = tl.maximum(x.to(tl.float32), 0.0) + slope
    return features, slope


@triton.jit
def _features(x, heads, n, length, width, offset, c, key_width: tl.constexpr):
    """Load queries or keys, as `_rows`; return `_phi` of them."""
    raw = _rows(x, heads, n, length, width, offset, c, key_width)
    features, slope = _phi(raw, n, length, c, key_width)
    return features, slope


@triton.jit
def _weights(weight, heads, n, length):
    """Return how often the keys of positions n [n] count for later queries."""
    counts = tl.full(n.shape, 1.0, tl.float32)
    if weight is not None:
        image = (tl.program_id(0) // heads).to(tl.int64)
        row = image * length + n
        counts = tl.load(weight + row, mask=n < length, other=0.0)
    return counts


@triton.jit
def _uses(n, counts):
    """Return how often each query [n, 1] counts each key [1, n] of the chunk: its own once, and no
    later one."""
    is_earlier = n[:, None] > n[None, :]
    is_own = n[:, None] == n[None, :]
    return tl.where(is_earlier, counts[None, :], tl.where(is_own, 1.0, 0.0))


@triton.jit
def _sum_of(s, z, first, end, c, m, key_width: tl.constexpr, value_width: tl.constexpr):
    """Return the sums [C, M] and [C] over segments first..end-1."""
    in_keys = c < key_width
    state = tl.zeros((c.shape[0], m.shape[0]), tl.float32)
    key_sum = tl.zeros((c.shape[0],), tl.float32)
    head = tl.program_id(0).to(tl.int64)
    index = head * tl.num_programs(1)
    for segment in range(first, end):
        s_places, z_places = _places(s, z, index + segment, c, m, key_width, value_width)
        state += tl.load(s_places, mask=in_keys[:, None] & (m < value_width)[None, :], other=0.0)
        key_sum += tl.load(z_places, mask=in_keys, other=0.0)
    return state, key_sum


@triton.jit
def _put_sums(s, z, state, key_sum, c, m, key_width: tl.constexpr, value_width: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    index = head * tl.num_programs(1) + tl.program_id(1)
    s_places, z_places = _places(s, z, index, c, m, key_width, value_width)
    tl.store(s_places, state, mask=(c < key_width)[:, None] & (m < value_width)[None, :])
    tl.store(z_places, key_sum, mask=c < key_width)


@triton.jit(do_not_specialize=["length"])
def _segment_sums(
    projected,
    weight,
    s,
    z,
    heads,
    length,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    epsilon: tl.constexpr,
    segment: tl.constexpr,
    chunk: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
    head = tl.program_id(0) % heads
    begin = tl.program_id(1) * segment
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    width = heads * (2 * key_width + value_width)
    of_value = 2 * heads * key_width + head * value_width
    of_key = (heads + head) * key_width
    # The sums stay in registers over all chunks and are stored once. Both add rounded keys, so that
    # numerators and normalisers count the same ones.
    state = tl.zeros((block_c, block_m), tl.float32)
    key_sum = tl.zeros((block_c,), tl.float32)
    end = tl.minimum(begin + segment, length)
    for start in range(begin, end, chunk):
        n = start + tl.arange(0, chunk)
        values = _rows(projected, heads, n, length, width, of_value, m, value_width)
        keys, _ = _features(projected, heads, n, length, width, of_key, c, key_width)
        counts = _weights(weight, heads, n, length)
        keys = (keys * counts[:, None]).to(values.dtype)
        state, key_sum = _add_keys(state, key_sum, keys, values)
    _put_sums(s, z, state, key_sum, c, m, key_width, value_width)


@triton.jit(do_not_specialize=["length"])
def _attend(
    projected,
    weight,
    s,
    z,
    y,
    normalisers,
    heads,
    length,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    epsilon: tl.constexpr,
    segment: tl.constexpr,
    chunk: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
    head = tl.program_id(0) % heads
    begin = tl.program_id(1) * segment
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    width = heads * (2 * key_width + value_width)
    of_value = 2 * heads * key_width + head * value_width
    of_query = head * key_width
    of_key = (heads + head) * key_width
    # The state before a chunk, in registers. A program adds up earlier segments'
    # sums itself, without another launch.
    state, key_sum = _sum_of(s, z, 0, tl.program_id(1), c, m, key_width, value_width)
    end = tl.minimum(begin + segment, length)
    for start in range(begin, end, chunk):
        n = start + tl.arange(0, chunk)
        values = _rows(projected, heads, n, length, width, of_value, m, value_width)
        queries, _ = _features(projected, heads, n, length, width, of_query, c, key_width)
        queries = queries.to(values.dtype)
        keys, _ = _features(projected, heads, n, length, width, of_key, c, key_width)
        counts = _weights(weight, heads, n, length)
        # Earlier chunks contribute through the state, this one through its scores,
        # where a query's own key counts once.
        uses = _uses(n, counts)
        scores = _dot(queries, tl.trans(keys.to(values.dtype))) * uses
        numerator = _dot(scores.to(values.dtype), values)
        numerator += _dot(queries, state)
        normaliser = tl.sum(scores, axis=1)
        normaliser += tl.sum(queries.to(tl.float32) * key_sum[None, :], axis=1)
        result = numerator / (normaliser + epsilon)[:, None]
        _put(y, result, heads, n, length, heads * value_width, head * value_width, m, value_width)
        tl.store(
            normalisers + tl.program_id(0).to(tl.int64) * length + n, normaliser, mask=n < length
        )
        # The state moves on after the chunk has read it.
        keys = (keys * counts[:, None]).to(values.dtype)
        state, key_sum = _add_keys(state, key_sum, keys, values)


@triton.jit(do_not_specialize=["length"])
def _later_sums(
    projected,
    weight,
    y,
    normalisers,
    grad_y,
    s,
    z,
    heads,
    length,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    epsilon: tl.constexpr,
    segment: tl.constexpr,
    chunk: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
    # The sums of phi(q_j) G_j^T and of phi(q_j) h_j over a segment, which keys before it need.
    head = tl.program_id(0) % heads
    begin = tl.program_id(1) * segment
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    width = heads * (2 * key_width + value_width)
    all_values = heads * value_width
    of_query = head * key_width
    segment_r = tl.zeros((block_c, block_m), tl.float32)
    segment_t = tl.zeros((block_c,), tl.float32)
    end = tl.minimum(begin + segment, length)
    for start in range(begin, end, chunk):
        n = start + tl.arange(0, chunk)
        raw = _rows(projected, heads, n, length, width, of_query, c, key_width)
        g, h = _sum_gradients(
            y,
            normalisers,
            grad_y,
            value_width,
            all_values,
            heads,
            n,
            length,
            m,
            value_width,
            epsilon,
        )
        queries, _ = _phi(raw, n, length, c, key_width)
        queries = queries.to(g.dtype)
        segment_r, segment_t = _add_queries(segment_r, segment_t, queries, g, h)
    _put_sums(s, z, segment_r, segment_t, c, m, key_width, value_width)


@triton.jit(do_not_specialize=["length"])
def _query_gradients(
    projected,
    weight,
    y,
    normalisers,
    grad_y,
    s,
    z,
    grad,
    heads,
    length,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    epsilon: tl.constexpr,
    segment: tl.constexpr,
    chunk: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
    head = tl.program_id(0) % heads
    begin = tl.program_id(1) * segment
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    width = heads * (2 * key_width + value_width)
    all_values = heads * value_width
    of_query = head * key_width
    of_key = (heads + head) * key_width
    of_value = 2 * heads * key_width + head * value_width
    # In order (eq. 13): keys of the chunk are weighted by G V^T + h 1^T, those before it come
    # through the state.
    state, key_sum = _sum_of(s, z, 0, tl.program_id(1), c, m, key_width, value_width)
    end = tl.minimum(begin + segment, length)
    for start in range(begin, end, chunk):
        n = start + tl.arange(0, chunk)
        values = _rows(projected, heads, n, length, width, of_value, m, value_width)
        keys, _ = _features(projected, heads, n, length, width, of_key, c, key_width)
        _, slope = _features(projected, heads, n, length, width, of_query, c, key_width)
        g, h = _sum_gradients(
            y,
            normalisers,
            grad_y,
            value_width,
            all_values,
            heads,
            n,
            length,
            m,
            value_width,
            epsilon,
        )
        counts = _weights(weight, heads, n, length)
        uses = _uses(n, counts)
        scores = (_dot(g, tl.trans(values)) + h[:, None]) * uses
        gradient = _dot(scores.to(values.dtype), keys)
        gradient += _dot(g, tl.trans(state))
        gradient += h[:, None] * key_sum[None, :]
        _put(grad, gradient * slope, heads, n, length, width, of_query, c, key_width)
        keys = (keys * counts[:, None]).to(values.dtype)
        state, key_sum = _add_keys(state, key_sum, keys, values)


@triton.jit(do_not_specialize=["length"])
def _key_value_gradients(
    projected,
    weight,
    y,
    normalisers,
    grad_y,
    r_after,
    t_after,
    grad,
    heads,
    length,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    epsilon: tl.constexpr,
    segment: tl.constexpr,
    chunk: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
    head = tl.program_id(0) % heads
    begin = tl.program_id(1) * segment
    end = tl.minimum(begin + segment, length)
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    width = heads * (2 * key_width + value_width)
    all_values = heads * value_width
    of_query = head * key_width
    of_key = (heads + head) * key_width
    of_value = 2 * heads * key_width + head * value_width
    # In reverse (eq. 14, 15): queries of the chunk, and later ones through their sums.
    next_segment = tl.program_id(1) + 1
    later_r, later_t = _sum_of(
        r_after, t_after, next_segment, tl.num_programs(1), c, m, key_width, value_width
    )
    chunks = tl.cdiv(end - begin, chunk)
    for i in range(0, chunks):
        n = begin + (chunks - 1 - i) * chunk + tl.arange(0, chunk)
        values = _rows(projected, heads, n, length, width, of_value, m, value_width)
        keys, slope = _features(projected, heads, n, length, width, of_key, c, key_width)
        queries, _ = _features(projected, heads, n, length, width, of_query, c, key_width)
        keys = keys.to(values.dtype)
        queries = queries.to(values.dtype)
        g, h = _sum_gradients(
            y,
            normalisers,
            grad_y,
            value_width,
            all_values,
            heads,
            n,
            length,
            m,
            value_width,
            epsilon,
        )
        # How often each key [n, 1] counts for each query [1, n]: the transpose of `_uses`.
        counts = _weights(weight, heads, n, length)
        is_earlier = n[:, None] < n[None, :]
        is_own = n[:, None] == n[None, :]
        uses = tl.where(is_earlier, counts[:, None], tl.where(is_own, 1.0, 0.0))
        # Keys (eq. 14), through phi.
        scores = (_dot(values, tl.trans(g)) + h[None, :]) * uses
        beyond = _dot(values, tl.trans(later_r)) + later_t[None, :]
        gradient = _dot(scores.to(values.dtype), queries) + counts[:, None] * beyond
        _put(grad, gradient * slope, heads, n, length, width, of_key, c, key_width)
        # Values (eq. 15), with the same two parts.
        scores = _dot(keys, tl.trans(queries)) * uses
        gradient = _dot(scores.to(values.dtype), g) + counts[:, None] * _dot(keys, later_r)
        _put(grad, gradient, heads, n, length, width, of_value, m, value_width)
        later_r, later_t = _add_queries(later_r, later_t, queries, g, h)
