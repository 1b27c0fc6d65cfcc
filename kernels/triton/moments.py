"""Moments of rows, for LayerNorm: the mean of each block of 64 numbers of a row, and the sum of
squares around it. The kernel that writes a row stores them, so that the kernels that read it
compute its mean and variance from a few numbers. Reference: torch's mean and var.

Numbers are added in pairs, the sums of pairs in pairs, and so on (`pair_sums`), because the order
of tl.sum depends on the layout that the compiler chooses for a program. So the moments of a row are
the same bits whichever kernel stores them, in whichever shape of program. Kernels that use these
functions must be compiled without contraction to fused multiply-adds, which the compiler applies as
it likes too (`options` of pdl.py sees to that).
"""

import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.triton.pdl import options, wait

BLOCK = tl.constexpr(64)  # numbers of a row
ROWS = 4  # of a program
COLUMNS = 1024


def blocks(width: int) -> int:
    """Return how many blocks a row of that width has."""
    return -(-width // BLOCK.value)


def row_moments(
    x: Tensor,  # [B, D] float32
    out: Tensor | None = None,  # [B, blocks(D), 2] float32: where to put the result
    chained: bool = False,  # by programmatic dependent launch: see pdl.py
) -> Tensor:
    """Return of each block of a row the mean, and the sum of squares around it."""
    batch, width = x.shape
    shape = (batch, blocks(width), 2)
    if out is None:
        out = x.new_empty(shape)
    if out.shape != shape:
        raise ValueError(f"x {list(x.shape)} and moments {list(out.shape)} do not fit")
    assert x.is_contiguous()
    assert out.is_contiguous()
    whole = max(BLOCK.value, triton.next_power_of_2(width))
    columns = min(COLUMNS, whole)
    grid = (triton.cdiv(width, columns), triton.cdiv(batch, ROWS))
    _row_moments[grid](x, out, batch, width, ROWS, columns, num_warps=4, **options(chained))
    return out


@triton.jit
def pair_sums(x, count: tl.constexpr):
    """Return the sums [b, n / count] of each `count` (a power of two) neighbours in the rows of x
    [b, n]."""
    for level in tl.static_range(16):
        if (count >> level) > 1:
            pairs = tl.reshape(x, (x.shape[0], x.shape[1] // 2, 2))
            even, odd = tl.split(pairs)
            x = even + odd
    return x


@triton.jit
def store_moments(out, x, b, inside, first, width: tl.constexpr):
    """Store the moments of numbers first to first + n of rows b: x [b, n], n a multiple of 64;
    `inside` [b] masks."""
    rows: tl.constexpr = x.shape[0]
    n: tl.constexpr = x.shape[1]
    parts: tl.constexpr = n // BLOCK
    blocks: tl.constexpr = (width + BLOCK - 1) // BLOCK
    there = (first + tl.arange(0, n) < width)[None, :]
    part = first // BLOCK + tl.arange(0, parts)[None, :]
    # a block beyond the row counts as one number, so that nothing is divided by zero
    count = tl.maximum(tl.minimum(width - part * BLOCK, BLOCK), 1).to(tl.float32)
    mean = pair_sums(tl.where(there, x, 0.0), BLOCK) / count
    in_parts = tl.reshape(x, (rows, parts, BLOCK))
    away = in_parts - mean[:, :, None]
    centred = tl.reshape(away, (rows, n))
    centred = tl.where(there, centred, 0.0)
    squares = pair_sums(centred * centred, BLOCK)
    places = out + (b[:, None].to(tl.int64) * blocks + part) * 2
    in_row = inside[:, None] & (part < blocks)
    tl.store(places, mean, mask=in_row)
    tl.store(places + 1, squares, mask=in_row)


@triton.jit
def mean_and_rstd(
    moments, b, inside, width: tl.constexpr, padded: tl.constexpr, epsilon: tl.constexpr
):
    """Return mean [b] and 1 / deviation [b] of whole rows; `padded` is the power of two from the
    number of blocks."""
    blocks: tl.constexpr = (width + BLOCK - 1) // BLOCK
    part = tl.arange(0, padded)[None, :]
    count = tl.maximum(tl.minimum(width - part * BLOCK, BLOCK), 0).to(tl.float32)
    places = moments + (b[:, None].to(tl.int64) * blocks + part) * 2
    in_row = inside[:, None] & (part < blocks)
    means = tl.load(places, mask=in_row, other=0.0)
    squares = tl.load(places + 1, mask=in_row, other=0.0)
    mean = pair_sums(means * count, padded) / width
    away = means - mean
    squares += count * away * away
    variance = pair_sums(squares, padded) / width
    rows: tl.constexpr = variance.shape[0]
    rstd = 1.0 / tl.sqrt(variance + epsilon)
    return tl.reshape(mean, (rows,)), tl.reshape(rstd, (rows,))


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _row_moments(
    x,
    out,
    batch,
    width: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
    chained: tl.constexpr,
):
    wait(chained)
    b = tl.program_id(1).to(tl.int64) * rows + tl.arange(0, rows)
    first = tl.program_id(0) * columns
    d = first + tl.arange(0, columns)
    inside = b < batch
    places = x + b[:, None] * width + d[None, :]
    in_row = inside[:, None] & (d[None, :] < width)
    value = tl.load(places, mask=in_row, other=0.0)
    store_moments(out, value, b, inside, first, width)
