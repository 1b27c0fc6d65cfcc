"""Kernels of `triton.py`: walks through the chunks of a head, in order or in reverse. Sums are float32, whatever the
inputs are. Equations are the paper's; the derivation is in README.md, in this folder.
"""

import triton
import triton.language as tl


@triton.jit
def _dot(a, b):
    """Return a b with float32 sums. Three TF32 products keep all but the last bits of float32 factors."""
    return tl.dot(a, b.to(a.dtype), input_precision="tf32x3")


@triton.jit
def _rows(x, stride_b, stride_h, stride_n, heads, n, length, d, width: tl.constexpr):
    """Load positions n of this program's head of x [B, H, N, width]; zero beyond the end."""
    first = x + (tl.program_id(0) // heads).to(tl.int64) * stride_b + (tl.program_id(0) % heads) * stride_h
    inside = (n[:, None] < length) & (d[None, :] < width)
    return tl.load(first + n[:, None] * stride_n + d[None, :], mask=inside, other=0.0)


@triton.jit
def _put(x, value, n, length, d, width: tl.constexpr):
    """Store positions n of this program's head of x [B, H, N, width], contiguous."""
    first = x + tl.program_id(0).to(tl.int64) * length * width
    inside = (n[:, None] < length) & (d[None, :] < width)
    tl.store(first + n[:, None] * width + d[None, :], value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _weights_of_sums(y, normaliser, g, stride_h, stride_n, heads, n, length, m, width: tl.constexpr, epsilon):
    """Return G [n, M] = d loss / d numerator and h [n] = d loss / d normaliser. y = numerator / normaliser, so with g =
    d loss / d y: G = g / normaliser and h = -sum over M of G y. Strides are those of y and g, contiguous."""
    # The normaliser first: loaded after g and y, it costs `_later_sums` 84 registers instead of 72 (sm_90, Triton 3.9).
    below = tl.load(normaliser + tl.program_id(0).to(tl.int64) * length + n, mask=n < length, other=1.0)
    image = heads * length * width
    gradient = _rows(g, image, stride_h, stride_n, heads, n, length, m, width)
    outputs = _rows(y, image, stride_h, stride_n, heads, n, length, m, width)
    weighted = gradient.to(tl.float32) / (below + epsilon)[:, None]
    return weighted.to(gradient.dtype), -tl.sum(weighted * outputs.to(tl.float32), axis=1)


@triton.jit
def _places(s, z, index, c, m, key_width: tl.constexpr, value_width: tl.constexpr):
    """Return where the state of that number is in s [n, C, M] and z [n, C]."""
    places = s + index * key_width * value_width + c[:, None] * value_width + m[None, :]
    return places, z + index * key_width + c


@triton.jit(do_not_specialize=["length", "segment"])  # one program code for all lengths
def walk_states(
    k, k_b, k_h, k_n, v, v_b, v_h, v_n, s, z, s_before, z_before,
    heads, length, segment, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    # Stores the state before each segment of a long sequence; the programs of `walk_forward` begin from them.
    head = tl.program_id(0).to(tl.int64)
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    in_keys = c < key_width
    in_state = in_keys[:, None] & (m[None, :] < value_width)
    states, totals = _places(s, z, head, c, m, key_width, value_width)
    state, total = tl.load(states, mask=in_state, other=0.0), tl.load(totals, mask=in_keys, other=0.0)
    segments = tl.cdiv(length, segment)
    for start in range(0, length, chunk):
        # A mask instead of a branch: only at the beginning of a segment is anything stored.
        stored = c < tl.where(start % segment == 0, key_width, 0)
        states, totals = _places(s_before, z_before, head * segments + start // segment, c, m, key_width, value_width)
        tl.store(states, state, mask=stored[:, None] & (m[None, :] < value_width))
        tl.store(totals, total, mask=stored)
        # Then the chunk's own keys and values join the state (eq. 10, 11).
        n = start + tl.arange(0, chunk)
        keys = _rows(k, k_b, k_h, k_n, heads, n, length, c, key_width)
        values = _rows(v, v_b, v_h, v_n, heads, n, length, m, value_width)
        state += _dot(tl.trans(keys), values)
        total += tl.sum(keys.to(tl.float32), axis=0)


@triton.jit(do_not_specialize=["length", "segment"])
def walk_later_states(
    q, q_b, q_h, q_n, y, normaliser, g, s_after, z_after,
    heads, length, segment, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    # Stores the sums of phi(q_j) G_j^T and of phi(q_j) h_j over the positions after each segment: chunks in reverse.
    head = tl.program_id(0).to(tl.int64)
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    size = length * value_width  # of a head in y and g
    later, total = tl.zeros((block_c, block_m), tl.float32), tl.zeros((block_c,), tl.float32)
    segments, chunks = tl.cdiv(length, segment), tl.cdiv(length, chunk)
    for i in range(0, chunks):
        start = (chunks - 1 - i) * chunk
        # At the last chunk of a segment the sums are those after it.
        ends = (start + chunk >= length) | ((start + chunk) % segment == 0)
        stored = c < tl.where(ends, key_width, 0)
        states, totals = _places(s_after, z_after, head * segments + start // segment, c, m, key_width, value_width)
        tl.store(states, later, mask=stored[:, None] & (m[None, :] < value_width))
        tl.store(totals, total, mask=stored)
        n = start + tl.arange(0, chunk)
        queries = _rows(q, q_b, q_h, q_n, heads, n, length, c, key_width)
        weighted, h = _weights_of_sums(y, normaliser, g, size, value_width, heads, n, length, m, value_width, epsilon)
        later += _dot(tl.trans(queries), weighted)
        total += tl.sum(queries.to(tl.float32) * h[:, None], axis=0)


@triton.jit(do_not_specialize=["length", "segment"])
def walk_forward(
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
    states, totals = _places(s, z, own, c, m, key_width, value_width)
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
        # The state moves on after the chunk has read it. Positions beyond the end are zeros and add nothing.
        state += _dot(tl.trans(keys), values)
        total += tl.sum(keys.to(tl.float32), axis=0)
    states, totals = _places(s_last, z_last, head, c, m, key_width, value_width)
    stored = c < tl.where(end == length, key_width, 0)
    tl.store(states, state, mask=stored[:, None] & (m[None, :] < value_width))
    tl.store(totals, total, mask=stored)


@triton.jit(do_not_specialize=["length", "segment"])
def walk_queries(
    k, k_b, k_h, k_n, v, v_b, v_h, v_n, s, z, y, normaliser, g, grad_q,
    heads, length, segment, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    # A query's gradient needs the state of its position: the same walk as forward, without storing N states.
    head, begin = tl.program_id(0).to(tl.int64), tl.program_id(1) * segment
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    size = length * value_width  # of a head in y and g
    in_keys = c < key_width
    own = head * tl.num_programs(1) + tl.program_id(1)
    states, totals = _places(s, z, own, c, m, key_width, value_width)
    state = tl.load(states, mask=in_keys[:, None] & (m[None, :] < value_width), other=0.0)
    total = tl.load(totals, mask=in_keys, other=0.0)
    for start in range(begin, tl.minimum(begin + segment, length), chunk):
        n = start + tl.arange(0, chunk)
        keys = _rows(k, k_b, k_h, k_n, heads, n, length, c, key_width)
        values = _rows(v, v_b, v_h, v_n, heads, n, length, m, value_width)
        weighted, h = _weights_of_sums(y, normaliser, g, size, value_width, heads, n, length, m, value_width, epsilon)
        # eq. 13: keys of this chunk, weighted by G V^T + h 1^T, and those before it through (s, z).
        scores = tl.where(n[:, None] >= n[None, :], _dot(weighted, tl.trans(values)) + h[:, None], 0.0)
        gradient = _dot(scores.to(keys.dtype), keys) + _dot(weighted, tl.trans(state)) + h[:, None] * total[None, :]
        _put(grad_q, gradient, n, length, c, key_width)
        state += _dot(tl.trans(keys), values)
        total += tl.sum(keys.to(tl.float32), axis=0)


@triton.jit(do_not_specialize=["length", "segment"])
def walk_keys_values(
    q, q_b, q_h, q_n, k, k_b, k_h, k_n, v, v_b, v_h, v_n, s_after, z_after, y, normaliser, g, grad_k, grad_v,
    heads, length, segment, key_width: tl.constexpr, value_width: tl.constexpr,
    epsilon: tl.constexpr, chunk: tl.constexpr, block_c: tl.constexpr, block_m: tl.constexpr,
):  # fmt: skip
    # A key counts in every later query, so this walk begins at the segment's last chunk.
    head, begin = tl.program_id(0).to(tl.int64), tl.program_id(1) * segment
    c, m = tl.arange(0, block_c), tl.arange(0, block_m)
    size = length * value_width  # of a head in y and g
    in_keys = c < key_width
    own = head * tl.num_programs(1) + tl.program_id(1)
    states, totals = _places(s_after, z_after, own, c, m, key_width, value_width)
    later = tl.load(states, mask=in_keys[:, None] & (m[None, :] < value_width), other=0.0)
    total = tl.load(totals, mask=in_keys, other=0.0)
    chunks = tl.cdiv(tl.minimum(segment, length - begin), chunk)
    for i in range(0, chunks):
        n = begin + (chunks - 1 - i) * chunk + tl.arange(0, chunk)
        queries = _rows(q, q_b, q_h, q_n, heads, n, length, c, key_width)
        keys = _rows(k, k_b, k_h, k_n, heads, n, length, c, key_width)
        values = _rows(v, v_b, v_h, v_n, heads, n, length, m, value_width)
        weighted, h = _weights_of_sums(y, normaliser, g, size, value_width, heads, n, length, m, value_width, epsilon)
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
