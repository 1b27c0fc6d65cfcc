"""The last launch of a byte's step on a GPU: Philox draws, the byte sampled from the mixture or the known one, its
cost, and the next position. References: reference.py, and kernels/philox.py, whose random words are the
same bit for bit.

Sums run over the components of one image only, so its result does not depend on what else is in the batch. Nothing is
returned to the host: positions stay on the device.
"""

import torch
import triton
import triton.language as tl

from scanline.kernels.logistics.reference import LN2
from scanline.kernels.triton.pdl import options, wait

IMAGES = 4  # of a program of one warp: nearly all of its time is memory latency
SCALES = ("exp", "elu")


def sample(
    parameters: torch.Tensor,  # [B, 3K] float32: logits, means, raw scales; with `grid` also the anchor's weights
    slots: torch.Tensor,  # [B] int64, all different: which of the S slots each row belongs to; -1: nothing is done
    images: torch.Tensor,  # [S, N] uint8, changed in place
    known: torch.Tensor,  # [S, N] bool
    bits: torch.Tensor,  # [S] float64, changed in place
    temperature: torch.Tensor,  # [S] float32
    seed: torch.Tensor,  # [S] int64
    index: torch.Tensor,  # [S] int64
    position: torch.Tensor,  # [S] int64, changed in place
    scale: str,
    grid: tuple[int, int] | None = None,  # pixels of a row and bytes of a pixel, where means are offsets from anchors
    chained: bool = False,  # by programmatic dependent launch: see kernels/triton/pdl.py
) -> None:
    """Paints the byte of `images` at `position` of the chosen slots, unless it is known, adds its cost at temperature
    1 to `bits`, and 1 to `position`, all IN PLACE."""
    if scale not in SCALES:
        raise ValueError(f"unknown scale parametrisation {scale!r}; known: {', '.join(SCALES)}")
    if parameters.shape[0] != len(slots) or images.shape != known.shape:
        raise ValueError(
            f"parameters {list(parameters.shape)}, slots {len(slots)}, images {list(images.shape)} do not fit"
        )
    assert parameters.is_contiguous()
    assert images.is_contiguous()
    assert known.is_contiguous()
    batch, stride = parameters.shape
    width, channels = grid or (1, 1)
    anchors = 0 if grid is None else 4 if channels == 1 else 5  # weights of four candidates, and for colour a share
    components = (stride - anchors) // 3
    _sample[(triton.cdiv(batch, IMAGES),)](
        parameters, slots, images, known.view(torch.uint8), bits, temperature, seed, index, position, batch,
        images.shape[1], components, stride, width, channels, triton.next_power_of_2(components), anchors,
        scale, LN2, IMAGES, num_warps=1, **options(chained),
    )  # fmt: skip


@triton.jit
def uniforms(seed, index, position):
    """Returns the two uniforms in (0, 1) of a byte, as kernels/philox.py; arguments are int64."""
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
    """Returns 1 - exp(-a) for a > 0; below 1/4 by six terms of the series, where the difference would cancel."""
    series = a * (1 - a / 2 * (1 - a / 3 * (1 - a / 4 * (1 - a / 5 * (1 - a / 6)))))
    return tl.where(a < 0.25, series, 1 - tl.exp(-a))


@triton.jit
def _log_sum_exp(x):
    """Returns log(sum(exp(x))) over the last axis; minus infinity where all of x are."""
    largest = tl.max(x, axis=1)
    safe = tl.where(largest == -float("inf"), 0.0, largest)
    return safe + tl.log(tl.sum(tl.exp(x - safe[:, None]), axis=1))


@triton.jit
def _value(images, byte, inside):
    """Returns painted bytes in the mixture's range [-1, 1], zero where they are outside the image."""
    return tl.where(inside, tl.load(images + byte, mask=inside, other=0).to(tl.float32) / 127.5 - 1, 0.0)


@triton.jit
def _around(images, byte, place, live, width, channels):
    """Returns the candidates left, above and plane (left + above - corner) of bytes."""
    inner_column, inner_row = live & (place // channels % width != 0), live & (place >= width * channels)
    left = _value(images, byte - channels, inner_column)
    above = _value(images, byte - width * channels, inner_row)
    corner = _value(images, byte - width * channels - channels, inner_column & inner_row)
    return left, above, tl.minimum(tl.maximum(left + above - corner, -1.0), 1.0)


@triton.jit
def _anchor(images, byte, place, choice, live, width, channels, anchors: tl.constexpr):
    """Returns the anchors of bytes, as anchors.py: four candidates, weighted by the softmax of the four numbers at
    `choice`. For colour, each is first corrected by a share, the fifth number, of its error on the previous channel."""
    left, above, plane = _around(images, byte, place, live, width, channels)
    middle = tl.zeros_like(left)
    if anchors == 5:
        later = live & (place % channels != 0)  # red has no previous channel
        before = _value(images, byte - 1, later)
        last_left, last_above, last_plane = _around(images, byte - 1, place - 1, later, width, channels)
        share = 1.0 / (1.0 + tl.exp(-tl.load(choice + 4, mask=live, other=0.0)))
        left += share * (before - last_left)
        above += share * (before - last_above)
        plane += share * (before - last_plane)
        middle += share * before
    a, b = tl.load(choice, mask=live, other=0.0), tl.load(choice + 1, mask=live, other=0.0)
    c, d = tl.load(choice + 2, mask=live, other=0.0), tl.load(choice + 3, mask=live, other=0.0)
    top = tl.maximum(tl.maximum(a, b), tl.maximum(c, d))
    a, b, c, d = tl.exp(a - top), tl.exp(b - top), tl.exp(c - top), tl.exp(d - top)
    return (a * left + b * above + c * plane + d * middle) / (a + b + c + d)


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _sample(
    parameters,
    slots,
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
    # Parameters come from the previous kernel, and images and positions of this byte were read by kernels before it.
    wait(chained)
    b = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    slot = tl.load(slots + b, mask=b < batch, other=-1)
    live = slot >= 0

    # Parameters of each image; K is padded to a power of two with logits of minus infinity, which weigh nothing.
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

    # Anchors read the neighbours of this byte, so they come before it is written.
    place = tl.load(position + slot, mask=live, other=0)
    pixel = slot * length + place
    if anchors > 0:
        means += _anchor(images, pixel, place, head + 3 * components, live, width, channels, anchors)[:, None]

    # Draw a component: the first uniform against the cumulative weights. These are not normalised, so the uniform is
    # scaled by their sum; it may round up to the sum itself, which the clamp turns into the last component.
    image_temperature = tl.load(temperature + slot, mask=live, other=1.0)
    u, w = uniforms(tl.load(seed + slot, mask=live, other=0), tl.load(index + slot, mask=live, other=0), place)
    tempered = logits / image_temperature[:, None]
    weights = tl.exp(tempered - tl.max(tempered, axis=1)[:, None])
    cumulative = tl.cumsum(weights, axis=1)
    drawn = u * tl.max(cumulative, axis=1)
    picked = tl.minimum(tl.sum(((drawn[:, None] >= cumulative) & there).to(tl.int32), axis=1), components - 1)

    # Draw its logistic by inverting the distribution at the second uniform. Registers cannot be indexed: the chosen
    # component is picked by a masked sum.
    chosen = k[None, :] == picked[:, None]
    mean = tl.sum(tl.where(chosen, means, 0.0), axis=1)
    spread = tl.sum(tl.where(chosen, scales, 0.0), axis=1) * image_temperature
    value = (mean + spread * (tl.log(w) - tl.log(1 - w)) + 1) * 127.5
    value = tl.minimum(tl.maximum(value, 0.0), 255.0)
    value = (value + 12582912.0) - 12582912.0  # 1.5 * 2^23: the nearest integer, ties to even

    # A known byte replaces the drawn one. The draw was made for nothing then, which costs less than a branch.
    given = tl.load(known + pixel, mask=live, other=0) != 0
    value = tl.where(given, tl.load(images + pixel, mask=live, other=0).to(tl.float32), value)
    tl.store(images + pixel, value.to(tl.uint8), mask=live)

    # The cost of the byte at temperature 1, by the stable factors of reference.log_prob; the first and the last bin
    # drop the factors that the tails make 1.
    darkest, brightest = (value == 0)[:, None], (value == 255)[:, None]
    half_bin = 1 / 255
    centred = (value / 127.5 - 1)[:, None] - means
    inner = tl.where(brightest, 0.0, _log_sigmoid((centred + half_bin) / scales))
    outer = tl.where(darkest, 0.0, _log_sigmoid((half_bin - centred) / scales))
    between = tl.where(darkest | brightest, 0.0, tl.log(_one_less_exp(2 * half_bin / scales)))
    each = tl.where(there, logits + inner + outer + between, -float("inf"))
    cost = (_log_sum_exp(logits) - _log_sum_exp(each)).to(tl.float64) / ln2
    tl.store(bits + slot, tl.load(bits + slot, mask=live, other=0.0) + cost, mask=live)
    tl.store(position + slot, place + 1, mask=live)
