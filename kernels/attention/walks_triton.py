"""Kernels of `triton.py`: walks through the chunks of a head, in order or in reverse. Sums are
float32, whatever the inputs are. Equations are the paper's; the derivation is in README.md, in this
folder, and G, h, R and T are its letters."""

import triton
import triton.language as tl


@triton.jit
def _dot(a, b):
    """Return a b with float32 sums. Three TF32 products keep all but the last bits of float32
    factors."""
    return tl.dot(a, b.to(a.dtype), input_precision="tf32x3")


@triton.jit
def _rows(x, stride_b, stride_h, stride_n, heads, n, length, d, width: tl.constexpr):
    """Load positions n of this program's head of x [B, H, N, width]; zero beyond the end."""
    image = (tl.program_id(0) // heads).to(tl.int64)
    first = x + image * stride_b + (tl.program_id(0) % heads) * stride_h
    inside = (n[:, None] < length) & (d[None, :] < width)
    return tl.load(first + n[:, None] * stride_n + d[None, :], mask=inside, other=0.0)


@triton.jit
def _put(x, value, n, length, d, width: tl.constexpr):
    """Store positions n of this program's head of x [B, H, N, width], contiguous."""
    first = x + tl.program_id(0).to(tl.int64) * length * width
    inside = (n[:, None] < length) & (d[None, :] < width)
    tl.store(first + n[:, None] * width + d[None, :], value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _sum_gradients(
    y, normalisers, grad_y, stride_h, stride_n, heads, n, length, m, width: tl.constexpr, epsilon
):
    """Return g [n, M] = d loss / d numerator, the derivation's G, and h [n] = d loss / d
    normaliser. As y = numerator / normaliser: g = d loss / d y / normaliser and h = -sum over M of
    g y. y and grad_y are contiguous, of these strides."""
    # The normaliser first: loaded after grad_y and y, it costs `_later_sums` 84
    # registers instead of 72 (sm_90, Triton 3.9).
    head = tl.program_id(0).to(tl.int64)
    normaliser = tl.load(normalisers + head * length + n, mask=n < length, other=1.0)
    stride_b = heads * length * width
    gradient = _rows(grad_y, stride_b, stride_h, stride_n, heads, n, length, m, width)
    outputs = _rows(y, stride_b, stride_h, stride_n, heads, n, length, m, width)
    weighted = gradient.to(tl.float32) / (normaliser + epsilon)[:, None]
    g = weighted.to(gradient.dtype)
    h = -tl.sum(weighted * outputs.to(tl.float32), axis=1)
    return g, h


@triton.jit
def _places(s, z, index, c, m, key_width: tl.constexpr, value_width: tl.constexpr):
    """Return where the state of that number is in s [n, C, M] and z [n, C]."""
    s_places = s + index * key_width * value_width + c[:, None] * value_width + m[None, :]
    z_places = z + index * key_width + c
    return s_places, z_places


@triton.jit
def _load_state(s, z, c, m, key_width: tl.constexpr, value_width: tl.constexpr):
    """Load the state of this program's segment: [C, M] and [C]."""
    in_keys = c < key_width
    in_state = in_keys[:, None] & (m[None, :] < value_width)
    head = tl.program_id(0).to(tl.int64)
    segment = head * tl.num_programs(1) + tl.program_id(1)
    s_places, z_places = _places(s, z, segment, c, m, key_width, value_width)
    state = tl.load(s_places, mask=in_state, other=0.0)
    key_sum = tl.load(z_places, mask=in_keys, other=0.0)
    return state, key_sum


@triton.jit
def _put_state(
    s, z, state, key_sum, index, is_stored, c, m, key_width: tl.constexpr, value_width: tl.constexpr
):
    """Store a state at the place of that number, where `is_stored`: a mask instead of a branch."""
    in_keys = c < tl.where(is_stored, key_width, 0)
    s_places, z_places = _places(s, z, index, c, m, key_width, value_width)
    tl.store(s_places, state, mask=in_keys[:, None] & (m[None, :] < value_width))
    tl.store(z_places, key_sum, mask=in_keys)


@triton.jit
def _add_keys(state, key_sum, keys, values):
    """Return the state after these positions (eq. 10, 11). Those beyond the end are zeros and add
    nothing."""
    state += _dot(tl.trans(keys), values)
    key_sum += tl.sum(keys.to(tl.float32), axis=0)
    return state, key_sum


@triton.jit
def _add_queries(later_r, later_t, queries, g, h):
    """Return R and T, the sums of phi(q_j) G_j^T and of phi(q_j) h_j, with those of these
    positions."""
    later_r += _dot(tl.trans(queries), g)
    later_t += tl.sum(queries.to(tl.float32) * h[:, None], axis=0)
    return later_r, later_t


@triton.jit(do_not_specialize=["length", "segment"])  # one program code for all lengths
def walk_states(
    k,  # [B, H, N, C], and its strides over images, heads and positions
    k_b,
    k_h,
    k_n,
    v,  # [B, H, N, M], and its strides over images, heads and positions
    v_b,
    v_h,
    v_n,
    s,
    z,
    s_before,
    z_before,
    heads,
    length,
    segment,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    epsilon: tl.constexpr,
    chunk: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
    # Stores the state before each segment of a long sequence; the
    # programs of `walk_forward` begin from them.
    head = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    in_keys = c < key_width
    in_state = in_keys[:, None] & (m[None, :] < value_width)
    s_places, z_places = _places(s, z, head, c, m, key_width, value_width)
    state = tl.load(s_places, mask=in_state, other=0.0)
    key_sum = tl.load(z_places, mask=in_keys, other=0.0)
    segments = tl.cdiv(length, segment)
    for start in range(0, length, chunk):
        # Only at the beginning of a segment is anything stored.
        begins = start % segment == 0
        index = head * segments + start // segment
        _put_state(s_before, z_before, state, key_sum, index, begins, c, m, key_width, value_width)
        # Then the chunk's own keys and values join the state.
        n = start + tl.arange(0, chunk)
        keys = _rows(k, k_b, k_h, k_n, heads, n, length, c, key_width)
        values = _rows(v, v_b, v_h, v_n, heads, n, length, m, value_width)
        state, key_sum = _add_keys(state, key_sum, keys, values)


@triton.jit(do_not_specialize=["length", "segment"])
def walk_later_states(
    q,  # [B, H, N, C], and its strides over images, heads and positions
    q_b,
    q_h,
    q_n,
    y,
    normalisers,
    grad_y,
    r_after,
    t_after,
    heads,
    length,
    segment,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    epsilon: tl.constexpr,
    chunk: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
    # Stores R and T of the positions after each segment: chunks in reverse.
    head = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    size = length * value_width  # of a head in y and grad_y
    later_r = tl.zeros((block_c, block_m), tl.float32)
    later_t = tl.zeros((block_c,), tl.float32)
    segments = tl.cdiv(length, segment)
    chunks = tl.cdiv(length, chunk)
    for i in range(0, chunks):
        start = (chunks - 1 - i) * chunk
        # At the last chunk of a segment the sums are those after it.
        ends = (start + chunk >= length) | ((start + chunk) % segment == 0)
        index = head * segments + start // segment
        _put_state(r_after, t_after, later_r, later_t, index, ends, c, m, key_width, value_width)
        n = start + tl.arange(0, chunk)
        queries = _rows(q, q_b, q_h, q_n, heads, n, length, c, key_width)
        g, h = _sum_gradients(
            y, normalisers, grad_y, size, value_width, heads, n, length, m, value_width, epsilon
        )
        later_r, later_t = _add_queries(later_r, later_t, queries, g, h)


@triton.jit(do_not_specialize=["length", "segment"])
def walk_forward(
    q,  # [B, H, N, C], and its strides over images, heads and positions
    q_b,
    q_h,
    q_n,
    k,  # [B, H, N, C], and its strides over images, heads and positions
    k_b,
    k_h,
    k_n,
    v,  # [B, H, N, M], and its strides over images, heads and positions
    v_b,
    v_h,
    v_n,
    s,
    z,
    y,
    normalisers,
    s_last,
    z_last,
    heads,
    length,
    segment,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    epsilon: tl.constexpr,
    chunk: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
    # The state before the segment's first chunk stays in registers until its last one.
    head = tl.program_id(0).to(tl.int64)
    begin = tl.program_id(1) * segment
    end = tl.minimum(begin + segment, length)
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    state, key_sum = _load_state(s, z, c, m, key_width, value_width)
    for start in range(begin, end, chunk):
        n = start + tl.arange(0, chunk)
        queries = _rows(q, q_b, q_h, q_n, heads, n, length, c, key_width)
        keys = _rows(k, k_b, k_h, k_n, heads, n, length, c, key_width)
        values = _rows(v, v_b, v_h, v_n, heads, n, length, m, value_width)
        # Earlier chunks contribute through the state, this one through its causal scores.
        scores = tl.where(n[:, None] >= n[None, :], _dot(queries, tl.trans(keys)), 0.0)
        numerator = _dot(scores.to(values.dtype), values)
        numerator += _dot(queries, state)
        normaliser = tl.sum(scores, axis=1)
        normaliser += tl.sum(queries.to(tl.float32) * key_sum[None, :], axis=1)
        _put(y, numerator / (normaliser + epsilon)[:, None], n, length, m, value_width)
        # The backward pass divides by the normaliser, which y alone does not give back.
        tl.store(normalisers + head * length + n, normaliser, mask=n < length)
        # The state moves on after the chunk has read it.
        state, key_sum = _add_keys(state, key_sum, keys, values)
    _put_state(s_last, z_last, state, key_sum, head, end == length, c, m, key_width, value_width)


@triton.jit(do_not_specialize=["length", "segment"])
def walk_queries(
    k,  # [B, H, N, C], and its strides over images, heads and positions
    k_b,
    k_h,
    k_n,
    v,  # [B, H, N, M], and its strides over images, heads and positions
    v_b,
    v_h,
    v_n,
    s,
    z,
    y,
    normalisers,
    grad_y,
    grad_q,
    heads,
    length,
    segment,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    epsilon: tl.constexpr,
    chunk: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
    # A query's gradient needs the state of its position: the same walk
    # as forward, without storing N states.
    begin = tl.program_id(1) * segment
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    size = length * value_width  # of a head in y and grad_y
    state, key_sum = _load_state(s, z, c, m, key_width, value_width)
    end = tl.minimum(begin + segment, length)
    for start in range(begin, end, chunk):
        n = start + tl.arange(0, chunk)
        keys = _rows(k, k_b, k_h, k_n, heads, n, length, c, key_width)
        values = _rows(v, v_b, v_h, v_n, heads, n, length, m, value_width)
        g, h = _sum_gradients(
            y, normalisers, grad_y, size, value_width, heads, n, length, m, value_width, epsilon
        )
        # eq. 13: keys of this chunk, weighted by G V^T + h 1^T, and those before it through (s, z).
        scores = tl.where(n[:, None] >= n[None, :], _dot(g, tl.trans(values)) + h[:, None], 0.0)
        gradient = _dot(scores.to(keys.dtype), keys)
        gradient += _dot(g, tl.trans(state))
        gradient += h[:, None] * key_sum[None, :]
        _put(grad_q, gradient, n, length, c, key_width)
        state, key_sum = _add_keys(state, key_sum, keys, values)


@triton.jit(do_not_specialize=["length", "segment"])
def walk_keys_values(
    q,  # [B, H, N, C], and its strides over images, heads and positions
    q_b,
    q_h,
    q_n,
    k,  # [B, H, N, C], and its strides over images, heads and positions
    k_b,
    k_h,
    k_n,
    v,  # [B, H, N, M], and its strides over images, heads and positions
    v_b,
    v_h,
    v_n,
    r_after,
    t_after,
    y,
    normalisers,
    grad_y,
    grad_k,
    grad_v,
    heads,
    length,
    segment,
    key_width: tl.constexpr,
    value_width: tl.constexpr,
    epsilon: tl.constexpr,
    chunk: tl.constexpr,
    block_c: tl.constexpr,
    block_m: tl.constexpr,
):
    # A key counts in every later query, so this walk begins at the segment's last chunk.
    begin = tl.program_id(1) * segment
    c = tl.arange(0, block_c)
    m = tl.arange(0, block_m)
    size = length * value_width  # of a head in y and grad_y
    later_r, later_t = _load_state(r_after, t_after, c, m, key_width, value_width)
    chunks = tl.cdiv(tl.minimum(segment, length - begin), chunk)
    for i in range(0, chunks):
        n = begin + (chunks - 1 - i) * chunk + tl.arange(0, chunk)
        queries = _rows(q, q_b, q_h, q_n, heads, n, length, c, key_width)
        keys = _rows(k, k_b, k_h, k_n, heads, n, length, c, key_width)
        values = _rows(v, v_b, v_h, v_n, heads, n, length, m, value_width)
        g, h = _sum_gradients(
            y, normalisers, grad_y, size, value_width, heads, n, length, m, value_width, epsilon
        )
        # Both score matrices are key by query, transposed to those of the forward
        # pass: no product needs a transpose.
        is_later = n[:, None] <= n[None, :]
        if grad_k is not None:  # eq. 14: queries of this chunk, and later ones through R and T
            scores = tl.where(is_later, _dot(values, tl.trans(g)) + h[None, :], 0.0)
            gradient = _dot(scores.to(queries.dtype), queries)
            gradient += _dot(values, tl.trans(later_r))
            gradient += later_t[None, :]
            _put(grad_k, gradient, n, length, c, key_width)
        if grad_v is not None:  # eq. 15, with the same two parts
            scores = tl.where(is_later, _dot(keys, tl.trans(queries)), 0.0)
            gradient = _dot(scores.to(g.dtype), g)
            gradient += _dot(keys, later_r)
            _put(grad_v, gradient, n, length, m, value_width)
        later_r, later_t = _add_queries(later_r, later_t, queries, g, h)
