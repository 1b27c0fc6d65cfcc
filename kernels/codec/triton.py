"""Quantised CDFs on a GPU: the intervals of bytes that are known, and bytes that are decoded in
place of drawn ones, by one kernel for each distribution. References: reference.py and
coder.Decoder, the same bit for bit.

`decode` stands before the sampling kernel of its step, which keeps the bytes and adds their cost.
The arithmetic is in quantised_cdf_triton.py.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.categorical.reference import VALUES, Categorical
from scanline.kernels.codec import coder
from scanline.kernels.codec.quantised_cdf_triton import (
    BITS_OF_E,
    NOTHING,
    SURE,
    TOTAL,
    below_after,
    means_of,
    rates_of,
    start_after,
    start_of,
    tables_on,
    weights_of,
    whole,
)
from scanline.kernels.pixel_logistics.reference import PixelLogistics
from scanline.kernels.pixel_logistics.triton import raw_scales
from scanline.kernels.triton.pdl import options, wait
from scanline.kernels.triton.sampling import check, put

IMAGES = 4  # of a program of logits, one for each of its warps
PIXELS = 2  # of a program of logistics, of one warp; with 4, one for a B200 spills registers

_PRECISION = tl.constexpr(coder.PRECISION)
_MIN_RANGE = tl.constexpr(coder.MIN_RANGE)
# bytes of the code, at most, by a symbol of the least width
_MOVED = tl.constexpr(-(-coder.PRECISION // 8))


def decode(
    parameters: Tensor,  # [B, width] float32, as in reference.py
    base: Tensor,  # [B, C] float32, added to the means of every component; of logits: not read
    # [B] int64, all different: which of the S slots each row belongs to; -1: nothing is done
    slots: Tensor,
    images: Tensor,  # [S, N] uint8, changed in place
    known: Tensor,  # [S, N] bool
    position: Tensor,  # [S] int64
    code: Tensor,  # [S, length] uint8: 0 behind its end
    code_at: Tensor,  # [S] int64, changed in place, as the two that follow: as in coder.Decoder
    code_value: Tensor,  # [S] int64
    code_range: Tensor,  # [S] int64; 0: the image has no code, and nothing is done
    distribution: Categorical | PixelLogistics,
    chained: bool = False,  # by programmatic dependent launch: see kernels/triton/pdl.py
) -> None:
    """Paint the bytes of the step of `images` at `position` of the chosen slots from their
    codes, except known ones, and go past them in the code, IN PLACE. Costs and positions
    are left to the sampling kernel."""
    check(parameters, distribution.width, slots, images, known)
    assert code.is_contiguous()
    _launch(
        parameters,
        base,
        slots,
        images,
        known.view(torch.uint8),
        position,
        code,
        code_at,
        code_value,
        code_range,
        None,
        code.shape[1],
        distribution,
        chained,
    )


def write_intervals(
    parameters: Tensor,  # [B, width] float32, as in reference.py
    base: Tensor,  # [B, C] float32, added to the means of every component; of logits: not read
    rows: Tensor,  # [B] int64: each row's number; -1: nothing is written
    values: Tensor,  # [B, C] uint8: the bytes of a step
    out: Tensor,  # [B, C, 2] int32, where to put starts and widths
    distribution: Categorical | PixelLogistics,
    chained: bool = False,
) -> None:
    """Write the intervals of reference.intervals."""
    check(parameters, distribution.width, rows, values, values)
    assert out.is_contiguous()
    assert out.shape == (*values.shape, 2)
    _launch(parameters, base, rows, values, *(None,) * 6, out, 0, distribution, chained)


def _launch(
    parameters: Tensor,
    base: Tensor,
    slots: Tensor,
    images: Tensor,
    known: Tensor | None,
    position: Tensor | None,
    code: Tensor | None,
    code_at: Tensor | None,
    code_value: Tensor | None,
    code_range: Tensor | None,
    out: Tensor | None,
    code_length: int,
    distribution: Categorical | PixelLogistics,
    chained: bool,
) -> None:
    arrays = slots, images, known, position, code, code_at, code_value, code_range, out
    sizes = len(slots), images.shape[1], code_length
    if isinstance(distribution, Categorical):
        _categorical[(triton.cdiv(len(slots), IMAGES),)](
            parameters,
            *arrays,
            tables_on(parameters.device),
            *sizes,
            VALUES,
            IMAGES,
            num_warps=IMAGES,
            **options(chained),
        )
        return
    if base.shape != (len(slots), distribution.channels):
        raise ValueError(
            f"base {list(base.shape)} does not fit {len(slots)} pixels of {distribution.channels} bytes"
        )
    assert base.is_contiguous()
    _pixels[(triton.cdiv(len(slots), PIXELS),)](
        parameters,
        base,
        *arrays,
        tables_on(parameters.device),
        *sizes,
        distribution.components,
        distribution.channels,
        distribution.width,
        triton.next_power_of_2(distribution.components),
        triton.next_power_of_2(distribution.channels),
        distribution.scale,
        VALUES,
        PIXELS,
        num_warps=1,
        **options(chained),
    )


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _categorical(
    parameters,
    slots,
    images,
    known,
    position,
    code,
    code_at,
    code_value,
    code_range,
    out,
    table,
    batch,
    length,
    code_length,
    values: tl.constexpr,
    block: tl.constexpr,
    chained: tl.constexpr,
):
    wait(chained)
    b, slot, live, place = _rows(slots, position, code_range, batch, block)
    # Of images that are decoded, only those with a code are live: a program
    # without one ends before it loads a logit.
    if tl.max(live.to(tl.int32), axis=0) > 0:
        # All 256 weights of a byte lie in a warp's registers: one scan
        # gives every start, without a search.
        value = tl.arange(0, values)[None, :]
        logits = tl.load(parameters + b[:, None] * values + value, mask=live[:, None], other=0.0)
        bits = whole(logits, BITS_OF_E)
        weights = weights_of(tl.max(bits, axis=1)[:, None] - bits, table)
        total = tl.sum(weights, axis=1)[:, None]
        smaller = tl.cumsum(weights, axis=1) - weights
        starts = start_after((smaller * TOTAL) // total, value).to(tl.int32)
        # The byte is known, or it is the last one whose interval
        # starts at or below what the code says.
        if code is None:
            byte = tl.load(images + slot * length, mask=live, other=0).to(tl.int64)
        else:
            image_code = code + slot * code_length
            at, state, range_ = _decoder(code_at, code_value, code_range, slot, live)
            target = _target(state, range_).to(tl.int32)
            begun = (starts <= target[:, None]).to(tl.int32)
            decoded = tl.sum(begun, axis=1) - 1
            byte, is_new = _put(images, known, slot * length + place, decoded, live)
        # Registers cannot be indexed: a masked sum picks the start. The last
        # interval ends at TOTAL, which is no start.
        start = tl.sum(tl.where(value == byte[:, None], starts, 0), axis=1).to(tl.int64)
        stop = tl.sum(tl.where(value == byte[:, None] + 1, starts, 0), axis=1).to(tl.int64)
        stop = tl.where(byte == values - 1, TOTAL, stop)
        if code is None:
            _write(out, b, start, stop, live)
        else:
            at, state, range_ = _take(
                image_code, at, state, range_, start, stop, is_new, code_length
            )
            _store(code_at, code_value, code_range, slot, at, state, range_, live)


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _pixels(
    parameters,
    base,
    slots,
    images,
    known,
    position,
    code,
    code_at,
    code_value,
    code_range,
    out,
    table,
    batch,
    length,
    code_length,
    components,
    channels: tl.constexpr,
    width,
    block_k: tl.constexpr,
    block_c: tl.constexpr,
    scale: tl.constexpr,
    values: tl.constexpr,
    block: tl.constexpr,
    chained: tl.constexpr,
):
    wait(chained)
    b, slot, live, place = _rows(slots, position, code_range, batch, block)
    # As above: a program without a code, or without a row, loads nothing more.
    if tl.max(live.to(tl.int32), axis=0) > 0:
        # K is padded to a power of two; components that are not there weigh nothing.
        k = tl.arange(0, block_k)[None, :]
        c = tl.arange(0, block_c)[None, :]
        there = k < components
        inside = live[:, None] & there
        first = parameters + b[:, None] * width
        image_base = base + b * channels
        if code is not None:
            image_code = code + slot * code_length
            at, state, range_ = _decoder(code_at, code_value, code_range, slot, live)

        # Of each component, in registers for all channels: how many bits its weight is below
        # the largest. What a channel's byte says of the components is added to it, so that the
        # next channel's weights are conditional.
        logits = tl.load(first + k, mask=inside, other=0.0)
        bits = tl.where(there, whole(logits, BITS_OF_E), -NOTHING)
        below = tl.max(bits, axis=1)[:, None] - bits
        seen = tl.zeros((block, block_c), tl.int64)
        for channel in tl.static_range(channels):
            means = means_of(
                first, image_base, k, c, seen, channel, components, channels, inside, live
            )
            raw = raw_scales(first, k, channel, components, channels, inside)
            rates = rates_of(raw, scale, table)
            weights = weights_of(below, table)
            total = tl.sum(weights, axis=1) * (SURE // TOTAL)
            offset = slot * length + place + channel
            # A start sums over all components, so 256 of them would be 256 sums:
            # the byte is found by bisection, in 8.
            if code is None:
                byte = tl.load(images + offset, mask=live, other=0).to(tl.int64)
            else:
                target = _target(state, range_)
                decoded = tl.zeros((block,), tl.int64)
                for i in range(8):
                    higher = decoded + ((values // 2) >> i)
                    is_higher = (
                        start_of(higher, weights, total, means, rates, table, values) <= target
                    )
                    decoded = tl.where(is_higher, higher, decoded)
                byte, is_new = _put(images, known, offset, decoded, live)
            start = start_of(byte, weights, total, means, rates, table, values)
            stop = start_of(byte + 1, weights, total, means, rates, table, values)
            if code is None:
                _write(out, b * channels + channel, start, stop, live)
            else:
                at, state, range_ = _take(
                    image_code, at, state, range_, start, stop, is_new, code_length
                )
            # Later channels depend on this byte, which is why
            # channels cannot be computed side by side.
            below = below_after(byte, below, means, rates, there, table, values)
            seen = tl.where(c == channel, byte[:, None], seen)
        if code is not None:
            _store(code_at, code_value, code_range, slot, at, state, range_, live)


@triton.jit
def _rows(slots, position, code_range, batch, block: tl.constexpr):
    """Return rows b [block] of the batch, their slots, whether each has work, and the byte at which
    its step begins."""
    b = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    slot = tl.load(slots + b, mask=b < batch, other=-1)
    live = slot >= 0
    if position is None:
        place = tl.zeros_like(slot)
    else:
        live &= tl.load(code_range + slot, mask=live, other=0) != 0
        place = tl.load(position + slot, mask=live, other=0)
    return b, slot, live, place


@triton.jit
def _write(out, b, start, stop, live):
    """Store the intervals of bytes number b."""
    tl.store(out + 2 * b, start.to(tl.int32), mask=live)
    tl.store(out + 2 * b + 1, (stop - start).to(tl.int32), mask=live)


@triton.jit
def _put(images, known, offset, decoded, live):
    """Store decoded bytes where none is known; return those that stand there then, int64, and which
    were decoded."""
    byte, is_known = put(images, known, offset, decoded.to(tl.float32), live)
    return byte.to(tl.int64), live & ~is_known


@triton.jit
def _decoder(code_at, code_value, code_range, slot, live):
    """Return the state [b] of each image's decoder: see coder.Decoder."""
    at = tl.load(code_at + slot, mask=live, other=0)
    state = tl.load(code_value + slot, mask=live, other=0)
    return at, state, tl.load(code_range + slot, mask=live, other=_MIN_RANGE)


@triton.jit
def _store(code_at, code_value, code_range, slot, at, state, range_, live):
    tl.store(code_at + slot, at, mask=live)
    tl.store(code_value + slot, state, mask=live)
    tl.store(code_range + slot, range_, mask=live)


@triton.jit
def _target(state, range_):
    """As coder.Decoder.target."""
    return tl.minimum(state // (range_ >> _PRECISION), TOTAL - 1)


@triton.jit
def _take(code, at, state, range_, start, stop, is_new, code_length):
    """As coder.Decoder.take, where a byte is new."""
    unit = range_ >> _PRECISION
    rest = unit * (stop - start)
    state = tl.where(is_new, tl.minimum(state - unit * start, rest - 1), state)
    range_ = tl.where(is_new, rest, range_)
    for _ in tl.static_range(_MOVED):
        moves = range_ < _MIN_RANGE
        byte = tl.load(code + at, mask=moves & (at < code_length), other=0).to(tl.int64)
        state = tl.where(moves, (state << 8) | byte, state)
        at += moves.to(tl.int64)
        range_ = tl.where(moves, range_ << 8, range_)
    return at, state, range_
