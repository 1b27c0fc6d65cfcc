"""Several products of the same rows in one launch: of attention's result, the feed-forward network and the projection
after it, with their norms and residuals. Reference: the chain of `linear`, bit for bit.

A program has 32 rows and all that becomes of them: numbers between two products never leave the multiprocessor, and
weights stream through shared memory once for both float16 halves of a row, which are two neighbouring columns of a
product's second factor. Each column's sum runs through K in ascending order, a tensor core's 16 at a time, as in
`linear`; a norm's moments are added in the order of `moments.py`. So no bit depends on which of them computes a row.
Compiled for Hopper: 169 KB of shared memory, one program a multiprocessor.
"""

import torch
import triton
import triton.language as tl

from scanline.kernels.triton.layer_norm import EPSILON
from scanline.kernels.triton.linear import LOW, Halves, _activated
from scanline.kernels.triton.moments import BLOCK, block_moments, blocks, of_blocks, store_moments
from scanline.kernels.triton.pdl import options, wait

Norm = tuple[torch.Tensor, torch.Tensor]  # weight and bias [D]
Linear = tuple[Halves, torch.Tensor]  # weight [O, K] and bias [O]
ROWS, PART, WARPS, STAGES = 32, 64, 8, 2  # PART: of outputs or of K at a time
WIDEST = 256  # with wider rows, registers spill


def fits(width: int, hidden: int, weights: list[Halves]) -> bool:
    """Return whether a program can have rows and hidden numbers of these widths. Weights with a low part do not fit, as
    they would be read twice."""
    return width <= WIDEST and hidden % PART == 0 and all(weight.low is None for weight in weights)


def feed_forward_rows(
    x: torch.Tensor,  # [B, D] float32, changed in place
    first: Linear,  # [F, D]
    second: Linear,  # [D, F]
    activation: str,
    norm: Norm | None = None,  # of x, before `first`
    seen: torch.Tensor | None = None,  # [B, D]: what `first` reads instead of x
    attended: tuple[torch.Tensor, Linear] | None = None,  # [B, D] and [D, D]: their product is added to x first
    after: tuple[Norm, Linear, torch.Tensor] | None = None,  # [O, D] of the normed result, to out [B, O]
    moments: torch.Tensor | None = None,  # [B, blocks(D), 2]: where to put those of the result
    chained: bool = False,  # by programmatic dependent launch: see pdl.py
) -> None:
    """Compute x += W2 activation(W1 norm(x)) IN PLACE, after x += W attended; and out = W3 norm(x) at the end."""
    batch, width = x.shape
    hidden = len(first[1])
    source, out_linear = attended or (None, None)
    next_norm, next_linear, out = after or (None, None, None)
    linears = [linear for linear in (out_linear, first, second, next_linear) if linear is not None]
    shapes = [tuple(weight.high.shape) for weight, _ in linears]
    expected = [(width, width)] * (attended is not None) + [(hidden, width), (width, hidden)]
    expected += [] if out is None else [(out.shape[1], width)]
    if shapes != expected or not fits(width, hidden, [weight for weight, _ in linears]):
        raise ValueError(f"x {list(x.shape)} and weights {shapes} do not fit")
    assert all(t is None or (t.is_contiguous() and len(t) == batch) for t in (x, seen, source, out, moments))
    assert seen is None or source is None
    assert all(t is None or t.shape == x.shape for t in (seen, source))
    assert moments is None or moments.shape == (batch, blocks(width), 2)
    _feed_forward_rows[(triton.cdiv(batch, ROWS),)](
        x, source, *_pointers(out_linear), seen, *(norm or (None, None)), *_pointers(first), *_pointers(second),
        *(next_norm or (None, None)), *_pointers(next_linear), out, moments, batch, width, hidden,
        0 if out is None else out.shape[1], EPSILON, activation, ROWS, max(BLOCK.value, triton.next_power_of_2(width)),
        PART, STAGES, LOW, num_warps=WARPS, **options(chained),
    )  # fmt: skip


def _pointers(linear: Linear | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    return (None, None) if linear is None else (linear[0].high, linear[1])


@triton.jit
def _halves(value, scale):
    """Return the high and low half of each column of [K, rows] as two neighbouring columns [K, 2 rows]."""
    above = value.to(tl.float16)
    below = ((value - above.to(tl.float32)) * scale).to(tl.float16)
    return tl.reshape(tl.join(above, below), (value.shape[0], 2 * value.shape[1]))


@triton.jit
def _weights(weight, o, k, stride: tl.constexpr, outer, inner):
    """Return [o, k] of a part of a weight [outer, inner] whose rows are `stride` numbers apart."""
    return tl.load(
        weight + o[:, None] * stride + k[None, :], mask=(o < outer)[:, None] & (k < inner)[None, :], other=0.0
    )


@triton.jit
def _result(sums, bias, o, width, scale):
    """Return the product [o, rows] from its sums of both halves [o, 2 rows], with its bias."""
    high, low = tl.split(tl.reshape(sums, (sums.shape[0], sums.shape[1] // 2, 2)))
    return tl.fma(low, 1.0 / scale, high) + tl.load(bias + o, mask=o < width, other=0.0)[:, None]


@triton.jit
def _normed(value, weight, bias, k, width: tl.constexpr, epsilon: tl.constexpr):
    """Return the norm of rows [K, rows]; zeros beyond their width."""
    means, squares = block_moments(tl.trans(value), 0, width)
    mean, rstd = of_blocks(means, squares, width, epsilon)
    value = (value - mean[None, :]) * rstd[None, :] * tl.load(weight + k, mask=k < width, other=0.0)[:, None]
    return value + tl.load(bias + k, mask=k < width, other=0.0)[:, None]


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _feed_forward_rows(
    x,
    attended,
    out_weight,
    out_bias,
    seen,
    norm_weight,
    norm_bias,
    first_weight,
    first_bias,
    second_weight,
    second_bias,
    next_norm_weight,
    next_norm_bias,
    next_weight,
    next_bias,
    out,
    moments,
    batch,
    width: tl.constexpr,
    hidden: tl.constexpr,
    next_width: tl.constexpr,
    epsilon: tl.constexpr,
    activation: tl.constexpr,
    rows: tl.constexpr,
    block: tl.constexpr,
    part: tl.constexpr,
    stages: tl.constexpr,
    scale: tl.constexpr,
    chained: tl.constexpr,
):
    # A tile begins at a scalar address, so that its other addresses need no registers.
    first = tl.program_id(0).to(tl.int64) * rows
    row = tl.arange(0, rows)[None, :]
    k = tl.arange(0, block)
    p = tl.arange(0, part)
    inside = row < batch - first
    x += first * width
    places = row * width + k[:, None]
    there = inside & (k < width)[:, None]

    # Nothing is fetched before the wait, which must stand in front of all copies of the loops' pipelines.
    wait(chained)
    if attended is not None:
        sums = tl.zeros((block, 2 * rows), tl.float32)
        attended += first * width
        for start in tl.range(0, width, part, num_stages=stages):
            left = width - start
            read = tl.load(attended + start + row * width + p[:, None], mask=inside & (p < left)[:, None], other=0.0)
            sums = tl.dot(_weights(out_weight + start, k, p, width, width, left), _halves(read, scale), sums)
        read = _result(sums, out_bias, k, width, scale) + tl.load(x + places, mask=there, other=0.0)
        tl.store(x + places, read, mask=there)
    else:
        read = tl.load((x if seen is None else seen + first * width) + places, mask=there, other=0.0)

    # The feed-forward network, a part of its hidden numbers after the other.
    if norm_weight is not None:
        read = _normed(read, norm_weight, norm_bias, k, width, epsilon)
    # x is loaded again at the end, by whichever thread: its registers are needed meanwhile.
    tl.debug_barrier()
    both = _halves(read, scale)
    sums = tl.zeros((block, 2 * rows), tl.float32)
    for start in tl.range(0, hidden, part, num_stages=stages):
        expanded = tl.dot(_weights(first_weight + start * width, p, k, width, part, width), both)
        expanded = _activated(_result(expanded, first_bias + start, p, part, scale), activation)
        sums = tl.dot(_weights(second_weight + start, k, p, hidden, width, part), _halves(expanded, scale), sums)
    value = _result(sums, second_bias, k, width, scale) + tl.load(x + places, mask=there, other=0.0)
    tl.store(x + places, value, mask=there)
    if moments is not None:
        b = first + tl.arange(0, rows)
        store_moments(moments, tl.trans(value), b, b < batch, 0, width)

    # The projection that reads the result's norm: of the next layer, or the head.
    if out is not None:
        both = _halves(_normed(value, next_norm_weight, next_norm_bias, k, width, epsilon), scale)
        out += first * next_width
        for start in tl.range(0, next_width, part, num_stages=stages):
            left = next_width - start
            result = tl.dot(_weights(next_weight + start * width, p, k, width, left, width), both)
            result = _result(result, next_bias + start, p, left, scale)
            tl.store(out + start + row * next_width + p[:, None], result, mask=inside & (p < left)[:, None])
