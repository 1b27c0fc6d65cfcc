"""The causal convolution on a GPU: the norm of x, if any, and the sum over painted neighbours, in
one launch before the product that reads them. Reference: `reference.causal_conv`; the neighbours
are added together first, then to the pixel's own. `ordered`, each is added to the pixel's own in
turn, with the bits of the CPU kernel (kernels/triton/ordered.py).

A program is one row. Painting takes neighbours from `conv_state` alone, which only `causal_conv` of the same block or
layer writes, a step before: they are fetched while the previous kernel still runs. Reading has many pixels of an image
in one launch: what is among its rows is normed anew from x, to the same bits, and `_keep` leaves what later pixels
need.
"""

import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels import BEYOND
from scanline.kernels.causal_conv.reference import NEIGHBOURS, OFFSETS
from scanline.kernels.triton.layer_norm import EPSILON
from scanline.kernels.triton.moments import blocks, mean_and_rstd
from scanline.kernels.triton.ordered import mean_and_factor, normed_rows
from scanline.kernels.triton.pdl import options, wait

Norm = tuple[Tensor, Tensor]  # weight and bias [D]
WARPS = 4
UPS = tl.constexpr(tuple(up for up, _ in OFFSETS))
LEFTS = tl.constexpr(tuple(left for _, left in OFFSETS))
COUNT = tl.constexpr(NEIGHBOURS)


def causal_conv(
    x: Tensor,  # [B, D] float32
    conv_weight: Tensor,  # [NEIGHBOURS, D]
    # [B] int64: each row's in `conv_state`, written before the previous kernel; -1: nothing
    slots: Tensor,
    position: Tensor,  # [S] int64, of each slot: the first byte of its pixel, of `channels`
    conv_state: Tensor,  # [S, width + BEYOND, D] float32, changed in place
    channels: int,
    out: Tensor,  # [B, D], a result; rows whose slot is -1 are not written
    norm: Norm | None = None,  # of x
    # [B, blocks(D), 2] of x, given with `norm`, but not read where `ordered`
    moments: Tensor | None = None,
    chained: bool = False,  # by programmatic dependent launch: see kernels/triton/pdl.py
    ordered: bool = False,
) -> None:
    """Write y of one pixel of each slot, all slots different, and keep what later pixels need."""
    _check(x, conv_weight, slots, conv_state, norm, moments)
    assert out.is_contiguous()
    _run(
        _causal_conv,
        x,
        slots,
        position,
        conv_state,
        channels,
        norm,
        moments,
        0,
        chained,
        ordered,
        (conv_weight, out, False),
    )


def causal_conv_sequence(
    x: Tensor,  # [N B, D] float32: row n B + b is pixel n of image b
    conv_weight: Tensor,  # [NEIGHBOURS, D]
    slots: Tensor,  # [N B] int64: b, or -1 in rows before an image's first pixel and after its last
    at: Tensor,  # [N B] int64: the first byte of each row's pixel
    conv_state: Tensor,  # [B, width + BEYOND, D] float32, changed in place
    channels: int,
    out: Tensor,  # [N B, D]
    norm: Norm | None = None,
    moments: Tensor | None = None,
    chained: bool = False,
    ordered: bool = False,
) -> None:
    """As `causal_conv` of successive pixels, bit for bit, in two launches."""
    _check(x, conv_weight, slots, conv_state, norm, moments)
    assert out.is_contiguous()
    batch = len(conv_state)
    _run(
        _causal_conv,
        x,
        slots,
        at,
        conv_state,
        channels,
        norm,
        moments,
        batch,
        chained,
        ordered,
        (conv_weight, out, True),
    )
    _run(_keep, x, slots, at, conv_state, channels, norm, moments, batch, chained, ordered, ())


def _check(
    x: Tensor,
    conv_weight: Tensor,
    slots: Tensor,
    conv_state: Tensor,
    norm: Norm | None,
    moments: Tensor | None,
) -> None:
    batch, depth = x.shape
    if (
        conv_weight.shape != (NEIGHBOURS, depth)
        or len(slots) != batch
        or conv_state.shape[2] != depth
    ):
        raise ValueError(
            f"x {list(x.shape)}, weight {list(conv_weight.shape)} and state {list(conv_state.shape)} do not fit"
        )
    assert all(tensor.is_contiguous() for tensor in (x, conv_weight, conv_state))
    assert norm is None or (moments is not None and moments.shape == (batch, blocks(depth), 2))


def _run(
    kernel: triton.JITFunction,
    x: Tensor,
    slots: Tensor,
    position: Tensor,
    conv_state: Tensor,
    channels: int,
    norm: Norm | None,
    moments: Tensor | None,
    batch: int,
    chained: bool,
    ordered: bool,
    more: tuple[object, ...],
) -> None:
    depth = x.shape[1]
    size = conv_state.shape[1]
    weight, bias = norm or (None, None)
    kernel[(len(x),)](
        x,
        slots,
        position,
        conv_state,
        weight,
        bias,
        None if norm is None else moments,
        *more,
        len(x),
        batch,
        channels,
        size - BEYOND,
        size,
        depth,
        triton.next_power_of_2(depth),
        triton.next_power_of_2(blocks(depth)),
        EPSILON,
        ordered,
        num_warps=WARPS,
        **options(chained),
    )


@triton.jit
def _normed(
    x,
    moments,
    weight,
    bias,
    row,
    there,
    depth: tl.constexpr,
    block: tl.constexpr,
    padded_blocks: tl.constexpr,
    epsilon: tl.constexpr,
    ordered: tl.constexpr,
):
    """Return rows [1, block] of x as the fused product reads them; zeros or of no meaning where not
    `there` [1]."""
    d = tl.arange(0, block)
    if ordered:
        mean = None
        factor = None
        if weight is not None:
            mean, factor = mean_and_factor(x, row, there, depth)
        return normed_rows(x, row, d, there, mean, factor, weight, bias, depth)
    value = tl.load(
        x + row[:, None] * depth + d[None, :], mask=there[:, None] & (d[None, :] < depth), other=0.0
    )
    if weight is not None:
        mean, rstd = mean_and_rstd(moments, row, there, depth, padded_blocks, epsilon)
        value = (
            (value - mean[:, None])
            * rstd[:, None]
            * tl.load(weight + d, mask=d < depth, other=0.0)[None, :]
        )
        value += tl.load(bias + d, mask=d < depth, other=0.0)[None, :]
    return value


@triton.jit(do_not_specialize=["rows", "batch"])  # one program code for all batches
def _causal_conv(
    x,
    slots,
    position,
    conv_state,
    weight,
    bias,
    moments,
    conv_weight,
    out,
    reads: tl.constexpr,
    rows,
    batch,
    channels: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
    depth: tl.constexpr,
    block: tl.constexpr,
    padded_blocks: tl.constexpr,
    epsilon: tl.constexpr,
    ordered: tl.constexpr,
    chained: tl.constexpr,
):
    # Slots come from the L2, where the kernel before the previous one wrote them.
    row = tl.program_id(0).to(tl.int64) + tl.arange(
        0, 1
    )  # not a scalar, which masks of blocks cannot be mixed with
    slot = tl.load(slots + row, cache_modifier=".cg")
    live = slot >= 0
    pixel = tl.load(position + (row if reads else slot), mask=live, other=0) // channels
    d = tl.arange(0, block)
    slot_state = conv_state + slot * size * depth
    in_depth = (d < depth)[None, :]
    if reads or ordered:
        wait(chained)

    # The sum over neighbours, each from `conv_state` unless it is among the rows. When
    # painting, it is added up before the pixel's own numbers are there, which the
    # previous kernel may still be computing.
    if ordered:
        normed = _normed(
            x, moments, weight, bias, row, live, depth, block, padded_blocks, epsilon, ordered
        )
        total = normed
    else:
        total = tl.zeros((1, block), tl.float32)
    for k in tl.static_range(COUNT):
        column = pixel % width - LEFTS[k]
        inside = live & (pixel >= UPS[k] * width) & (column >= 0) & (column < width)
        from_state = inside
        if reads:
            near = row - (UPS[k] * width + LEFTS[k]) * batch.to(tl.int64)
            here = inside & (near >= 0)
            here = here & (tl.load(slots + near, mask=here, other=-1) >= 0)
            from_state = inside & (here == 0)
        place = (pixel - UPS[k] * width - LEFTS[k]) % size
        value = tl.load(
            slot_state[:, None] + place[:, None] * depth + d[None, :],
            mask=from_state[:, None] & in_depth,
            other=0.0,
            cache_modifier=".cg",
        )
        if reads:
            fresh = _normed(
                x, moments, weight, bias, near, here, depth, block, padded_blocks, epsilon, ordered
            )
            value = tl.where(here[:, None], fresh, value)
        factor = tl.load(conv_weight + k * depth + d, mask=d < depth, other=0.0)[None, :]
        if ordered:
            total = tl.where(inside[:, None], tl.fma(value, factor, total), total)
        else:
            total += factor * value

    # x is written by the previous kernel: nothing of it may be read before this line.
    if not ordered:
        if not reads:
            wait(chained)
        normed = _normed(
            x, moments, weight, bias, row, live, depth, block, padded_blocks, epsilon, ordered
        )
        total += normed
    in_row = live[:, None] & in_depth
    tl.store(out + row[:, None] * depth + d[None, :], total, mask=in_row)
    if not reads:  # no neighbour of this pixel is in that place
        tl.store(
            slot_state[:, None] + (pixel % size)[:, None] * depth + d[None, :], normed, mask=in_row
        )


@triton.jit(do_not_specialize=["rows", "batch"])  # one program code for all batches
def _keep(
    x,
    slots,
    position,
    conv_state,
    weight,
    bias,
    moments,
    rows,
    batch,
    channels: tl.constexpr,
    width: tl.constexpr,
    size: tl.constexpr,
    depth: tl.constexpr,
    block: tl.constexpr,
    padded_blocks: tl.constexpr,
    epsilon: tl.constexpr,
    ordered: tl.constexpr,
    chained: tl.constexpr,
):
    # The last `size` rows of each image: those so many pixels after which there is none.
    row = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)
    slot = tl.load(slots + row, cache_modifier=".cg")
    later = row + size * batch.to(tl.int64)
    last = (slot >= 0) & (
        tl.load(slots + later, mask=later < rows, other=-1, cache_modifier=".cg") < 0
    )
    pixel = tl.load(position + row, mask=last, other=0) // channels
    wait(chained)  # the previous kernel reads `conv_state`
    d = tl.arange(0, block)
    value = _normed(
        x, moments, weight, bias, row, last, depth, block, padded_blocks, epsilon, ordered
    )
    place = conv_state + (slot * size + pixel % size)[:, None] * depth + d[None, :]
    tl.store(place, value, mask=last[:, None] & (d < depth)[None, :])
