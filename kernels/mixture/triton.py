"""The end of a byte's step on a GPU, in one launch: Philox draws, the byte out of the mixture or the known one,
what it costs, and the position moved on.

The same random words as kernels/philox.py, bit for bit, and the formulas of kernels/mixture/reference.py; sums over the
components of one image only, so its company cannot matter. The host is told nothing: positions live on the device.
"""

import math

import torch
import triton
import triton.language as tl

from scanline.kernels.triton.pdl import options, wait

IMAGES = 4  # of a program of one warp: nothing here is long but the wait for memory
SCALES = ("exp", "elu")


def sample(
    parameters: torch.Tensor,  # [B, 3K] float32: logits, means, raw scales; with `grid` what tells their anchor
    rows: torch.Tensor,  # [B] int64, all different: the row below that each belongs to; nothing is done where negative
    images: torch.Tensor,  # [R, N] uint8, changed in place
    known: torch.Tensor,  # [R, N] bool
    bits: torch.Tensor,  # [R] float64, changed in place
    temperature: torch.Tensor,  # [R] float32
    seed: torch.Tensor,  # [R] int64
    index: torch.Tensor,  # [R] int64
    position: torch.Tensor,  # [R] int64, changed in place
    scale: str,
    grid: tuple[int, int] | None = None,  # pixels of a row and bytes of a pixel, where means are offsets from anchors
    chained: bool = False,  # to the launches around it: see kernels/handover
) -> None:
    """Paints the byte of `images` at `position` of the chosen rows, unless it is known, adds its cost at temperature
    1 to `bits` and 1 to `position`, all IN PLACE."""
    if scale not in SCALES:
        raise ValueError(f"unknown scale parametrisation {scale!r}; known: {', '.join(SCALES)}")
    if parameters.shape[0] != len(rows) or images.shape != known.shape:
        raise ValueError(
            f"parameters {list(parameters.shape)}, rows {len(rows)}, images {list(images.shape)} do not fit"
        )
    assert parameters.is_contiguous()
    assert images.is_contiguous()
    assert known.is_contiguous()
    batch, stride = parameters.shape
    width, channels = grid or (1, 1)
    anchors = 0 if grid is None else 4 if channels == 1 else 5  # a choice of four, and for colour a share
    components = (stride - anchors) // 3
    _sample[(triton.cdiv(batch, IMAGES),)](
        parameters, rows, images, known.view(torch.uint8), bits, temperature, seed, index, position, batch,
        images.shape[1], components, stride, width, channels, triton.next_power_of_2(components), anchors,
        scale, math.log(2), IMAGES, num_warps=1, **options(chained),
    )  # fmt: skip


@triton.jit
def uniforms(seed, index, position):
    """kernels/philox.py's two uniforms in (0, 1) of a byte; all int64."""
    counter = position.to(tl.uint32)
    low, high = index.to(tl.uint32), (index >> 32).to(tl.uint32)
    first, second, _, _ = tl.philox(seed, counter, low, high, tl.zeros_like(counter), 10)
    unit = 1.1920928955078125e-07  # 2^-23
    return ((first >> 9).to(tl.float32) + 0.5) * unit, ((second >> 9).to(tl.float32) + 0.5) * unit


@triton.jit
def _log_sigmoid(x):
    return tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _one_less_exp(a):
    """1 - exp(-a) for a > 0, without the cancellation of small a: six terms of its series below 1/4."""
    series = a * (1 - a / 2 * (1 - a / 3 * (1 - a / 4 * (1 - a / 5 * (1 - a / 6)))))
    return tl.where(a < 0.25, series, 1 - tl.exp(-a))


@triton.jit
def _log_sum_exp(x):
    """Over the last axis; minus infinity where all are."""
    largest = tl.max(x, axis=1)
    safe = tl.where(largest == -float("inf"), 0.0, largest)
    return safe + tl.log(tl.sum(tl.exp(x - safe[:, None]), axis=1))


@triton.jit
def _beside(images, byte, inside):
    """A painted byte as the mixture sees it, zero where it is outside."""
    return tl.where(inside, tl.load(images + byte, mask=inside, other=0).to(tl.float32) / 127.5 - 1, 0.0)


@triton.jit
def _around(images, byte, place, live, width, channels):
    """Left, above, and the slope of both with the corner, of a byte."""
    inner_column, inner_row = live & (place // channels % width != 0), live & (place >= width * channels)
    left = _beside(images, byte - channels, inner_column)
    above = _beside(images, byte - width * channels, inner_row)
    corner = _beside(images, byte - width * channels - channels, inner_column & inner_row)
    return left, above, tl.minimum(tl.maximum(left + above - corner, -1.0), 1.0)


@triton.jit
def _anchor(images, byte, place, choice, live, width, channels, anchors: tl.constexpr):
    """As `anchors.py`: four candidates mixed by the first four numbers at `choice`; in colour each of them moves by a
    share, the fifth, of what it missed in the channel before."""
    left, above, slope = _around(images, byte, place, live, width, channels)
    middle = tl.zeros_like(left)
    if anchors == 5:
        later = live & (place % channels != 0)
        before = _beside(images, byte - 1, later)
        last_left, last_above, last_slope = _around(images, byte - 1, place - 1, later, width, channels)
        share = 1.0 / (1.0 + tl.exp(-tl.load(choice + 4, mask=live, other=0.0)))
        left += share * (before - last_left)
        above += share * (before - last_above)
        slope += share * (before - last_slope)
        middle += share * before
    a, b = tl.load(choice, mask=live, other=0.0), tl.load(choice + 1, mask=live, other=0.0)
    c, d = tl.load(choice + 2, mask=live, other=0.0), tl.load(choice + 3, mask=live, other=0.0)
    top = tl.maximum(tl.maximum(a, b), tl.maximum(c, d))
    a, b, c, d = tl.exp(a - top), tl.exp(b - top), tl.exp(c - top), tl.exp(d - top)
    return (a * left + b * above + c * slope + d * middle) / (a + b + c + d)


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _sample(
    parameters,
    rows,
    images,
    known,
    bits,
    temperature,
    seed,
    index,
    position,
    batch,
    length,
    components,
    stride,
    width,
    channels,
    block_k: tl.constexpr,
    anchors: tl.constexpr,
    scale: tl.constexpr,
    ln2: tl.constexpr,
    block: tl.constexpr,
    chained: tl.constexpr,
):
    wait(chained)
    b = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    row = tl.load(rows + b, mask=b < batch, other=-1)
    live = row >= 0
    k = tl.arange(0, block_k)
    there = k[None, :] < components
    head = parameters + b * stride
    first = head[:, None] + k[None, :]
    inside = live[:, None] & there
    logits = tl.load(first, mask=inside, other=0.0)
    means = tl.load(first + components, mask=inside, other=0.0)
    raw = tl.load(first + 2 * components, mask=inside, other=0.0)
    logits = tl.where(there, logits, -float("inf"))
    elu = tl.where(raw > 0, raw + 1.0001, tl.exp(raw) + 0.0001)
    scales = tl.exp(tl.maximum(raw, -7.0)) if scale == "exp" else elu

    place = tl.load(position + row, mask=live, other=0)
    pixel = row * length + place
    if anchors > 0:
        means += _anchor(images, pixel, place, head + 3 * components, live, width, channels, anchors)[:, None]
    heat = tl.load(temperature + row, mask=live, other=1.0)
    u, w = uniforms(tl.load(seed + row, mask=live, other=0), tl.load(index + row, mask=live, other=0), place)
    tempered = logits / heat[:, None]
    weights = tl.exp(tempered - tl.max(tempered, axis=1)[:, None])
    cumulative = tl.cumsum(weights, axis=1)
    drawn = u * tl.max(cumulative, axis=1)
    picked = tl.minimum(tl.sum(((drawn[:, None] >= cumulative) & there).to(tl.int32), axis=1), components - 1)
    chosen = k[None, :] == picked[:, None]
    mean = tl.sum(tl.where(chosen, means, 0.0), axis=1)
    spread = tl.sum(tl.where(chosen, scales, 0.0), axis=1) * heat
    value = (mean + spread * (tl.log(w) - tl.log(1 - w)) + 1) * 127.5
    value = tl.minimum(tl.maximum(value, 0.0), 255.0)
    value = (value + 12582912.0) - 12582912.0  # 1.5 * 2^23: the nearest integer, ties to even

    given = tl.load(known + pixel, mask=live, other=0) != 0
    value = tl.where(given, tl.load(images + pixel, mask=live, other=0).to(tl.float32), value)
    tl.store(images + pixel, value.to(tl.uint8), mask=live)

    darkest, brightest = (value == 0)[:, None], (value == 255)[:, None]
    half_bin = 1 / 255
    centred = (value / 127.5 - 1)[:, None] - means
    inner = tl.where(brightest, 0.0, _log_sigmoid((centred + half_bin) / scales))
    outer = tl.where(darkest, 0.0, _log_sigmoid((half_bin - centred) / scales))
    between = tl.where(darkest | brightest, 0.0, tl.log(_one_less_exp(2 * half_bin / scales)))
    each = tl.where(there, logits + inner + outer + between, -float("inf"))
    cost = (_log_sum_exp(logits) - _log_sum_exp(each)).to(tl.float64) / ln2
    tl.store(bits + row, tl.load(bits + row, mask=live, other=0.0) + cost, mask=live)
    tl.store(position + row, place + 1, mask=live)
