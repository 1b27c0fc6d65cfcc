"""Parts of the sampling kernels of all distributions: a program's slots, Philox uniforms,
the choice among weights, bins and draws of a logistic, stores of bytes and costs.
References: kernels/philox.py, whose random words are the same bit for bit, and
`reference.py` of each distribution.

Sums run over the components or values of one image only, so a result does not
depend on what else is in the batch.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels.triton import ordered as ordered_functions

DRAWS = 128  # of a program
Guiding = tuple[Tensor, Tensor, Tensor]  # label, partner [S] int64 (0: not guided), guidance [S]


@dataclass(frozen=True)
class SlotArrays:
    """What the sampling kernels read of S slots of N bytes."""

    images: Tensor  # [S, N] uint8, changed in place
    known: Tensor  # [S, N] bool
    bits: Tensor  # [S] float64, changed in place
    known_bits: Tensor  # [S] float64, changed in place
    temperature: Tensor  # [S] float32
    seed: Tensor  # [S] int64
    index: Tensor  # [S] int64
    position: Tensor  # [S] int64, changed in place

    @property
    def pointers(self) -> tuple[Tensor, ...]:
        """The arrays as the kernels take them, in their order."""
        known = self.known.view(torch.uint8)
        return (
            self.images,
            known,
            self.bits,
            self.known_bits,
            self.temperature,
            self.seed,
            self.index,
            self.position,
        )


def check(
    parameters: Tensor,
    width: int,
    slots: Tensor,
    images: Tensor,
    known: Tensor,
) -> None:
    """Raise ValueError where parameters [B, width], slots [B], images [S, N] and known [S, N] do
    not fit."""
    if parameters.shape != (len(slots), width) or images.shape != known.shape:
        raise ValueError(
            f"parameters {list(parameters.shape)}, slots {len(slots)}, images {list(images.shape)} and known "
            f"{list(known.shape)} do not fit"
        )
    assert parameters.is_contiguous()
    assert images.is_contiguous()
    assert known.is_contiguous()


def draw_uniforms(seed: Tensor, index: Tensor, position: Tensor) -> Tensor:
    """Return the two uniforms in (0, 1) of seeds, indices and positions [n] int64, [n, 2], as
    kernels/philox.py."""
    if not seed.shape == index.shape == position.shape or seed.dim() != 1:
        raise ValueError(
            f"seeds {list(seed.shape)}, indices {list(index.shape)} and positions do not fit"
        )
    out = torch.empty(len(seed), 2, device=seed.device)
    count = len(seed)
    grid = (triton.cdiv(count, DRAWS),)
    _draw_uniforms[grid](
        seed, index, position, out, count, DRAWS, num_warps=1, enable_fp_fusion=False
    )
    return out


# One program code for all numbers, and for positions wherever they begin.
@triton.jit(
    do_not_specialize=["count"], do_not_specialize_on_alignment=["seed", "index", "position"]
)
def _draw_uniforms(seed, index, position, out, count, block: tl.constexpr):
    i = tl.program_id(0) * block + tl.arange(0, block)
    inside = i < count
    image_seed = tl.load(seed + i, mask=inside, other=0)
    image_index = tl.load(index + i, mask=inside, other=0)
    place = tl.load(position + i, mask=inside, other=0)
    first, second = uniforms(image_seed, image_index, place)
    tl.store(out + 2 * i, first, mask=inside)
    tl.store(out + 2 * i + 1, second, mask=inside)


@triton.jit
def uniforms(seed, index, position):
    """Return the two uniforms in (0, 1) of a byte, as kernels/philox.py; arguments are int64."""
    counter = position.to(tl.uint32)
    low = index.to(tl.uint32)
    high = (index >> 32).to(tl.uint32)
    first, second, _, _ = tl.philox(seed, counter, low, high, tl.zeros_like(counter), 10)
    unit = 1.1920928955078125e-07  # 2^-23
    first = ((first >> 9).to(tl.float32) + 0.5) * unit
    second = ((second >> 9).to(tl.float32) + 0.5) * unit
    return first, second


@triton.jit
def slots_of_program(slots, position, temperature, batch, block: tl.constexpr, at):
    """Return rows b [block] of the batch, the slot of each, whether it is one, the byte at which
    its step begins (its row's `at`, where that is given), and its temperature."""
    b = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    slot = tl.load(slots + b, mask=b < batch, other=-1)
    live = slot >= 0
    next_byte = position + slot if at is None else at + b
    place = tl.load(next_byte, mask=live, other=0)
    image_temperature = tl.load(temperature + slot, mask=live, other=1.0)
    return b, slot, live, place, image_temperature


@triton.jit
def slot_uniforms(seed, index, slot, place, live):
    """Return the uniforms of the byte at `place` of each slot."""
    image_seed = tl.load(seed + slot, mask=live, other=0)
    image_index = tl.load(index + slot, mask=live, other=0)
    return uniforms(image_seed, image_index, place)


@triton.jit
def log_sum_exp(x, there, ordered: tl.constexpr):
    """Return log(sum(exp(x))) over the last axis; minus infinity where all of x are. ordered: as
    float64, of those that are `there`."""
    if ordered:
        result = ordered_functions.log_sum_exp(x, there)
    else:
        largest = tl.max(x, axis=1)
        safe = tl.where(largest == -float("inf"), 0.0, largest)
        total = tl.sum(tl.exp(x - safe[:, None]), axis=1)
        result = safe + tl.log(total)
    return result


@triton.jit
def pick(log_weights, temperature, uniform, there, count, ordered: tl.constexpr):
    """Return which of the first `count` values each uniform chooses, int32;
    log-weights beyond are minus infinity; temperature: None or [b].

    The cumulative weights are not normalised, so the uniform is scaled by their sum; it may round
    up to the sum itself, which the clamp turns into the last value.
    """
    if ordered:
        return ordered_functions.pick(log_weights, temperature, uniform, there, count)
    if temperature is not None:
        log_weights = log_weights / temperature[:, None]
    largest = tl.max(log_weights, axis=1)
    weights = tl.exp(log_weights - largest[:, None])
    cumulative = tl.cumsum(weights, axis=1)
    drawn = uniform * tl.max(cumulative, axis=1)
    passed = (drawn[:, None] >= cumulative) & there
    picked = tl.sum(passed.to(tl.int32), axis=1)
    return tl.minimum(picked, count - 1)


@triton.jit
def draw_logistic(mean, scale, uniform, ordered: tl.constexpr):
    """Return bytes, as float32: the logistic inverted at the uniform, and rounded."""
    if ordered:
        standard = ordered_functions.logarithm(uniform)
        standard -= ordered_functions.logarithm(1 - uniform)
    else:
        standard = tl.log(uniform) - tl.log(1 - uniform)
    value = (mean + scale * standard + 1) * 127.5
    value = tl.minimum(tl.maximum(value, 0.0), 255.0)
    return (value + 12582912.0) - 12582912.0  # 1.5 * 2^23: the nearest integer, ties to even


@triton.jit
def _log_sigmoid(x):
    return tl.minimum(x, 0.0) - tl.log(1.0 + tl.exp(-tl.abs(x)))


@triton.jit
def _one_less_exp(a):
    """Return 1 - exp(-a) for a > 0; below 1/4 by six terms of the series, where the difference
    would cancel."""
    series = a * (1 - (a / 2) * (1 - (a / 3) * (1 - (a / 4) * (1 - (a / 5) * (1 - a / 6)))))
    return tl.where(a < 0.25, series, 1 - tl.exp(-a))


@triton.jit
def log_bin(byte, means, scales, ordered: tl.constexpr):
    """Return the log-probability [b, K] that each logistic gives the bin of a byte
    [b], float32, by the stable factors of the reference; the first and the last bin
    drop the factors that the tails make 1."""
    if ordered:
        return ordered_functions.log_bin(byte, means, scales)
    is_black = (byte == 0)[:, None]
    is_white = (byte == 255)[:, None]
    half_bin = 1 / 255
    centred = (byte / 127.5 - 1)[:, None] - means
    inner = tl.where(is_white, 0.0, _log_sigmoid((centred + half_bin) / scales))
    outer = tl.where(is_black, 0.0, _log_sigmoid((half_bin - centred) / scales))
    has_tail = is_black | is_white
    width = tl.where(has_tail, 0.0, tl.log(_one_less_exp(2 * half_bin / scales)))
    return inner + outer + width


@triton.jit
def real_of(byte, ordered: tl.constexpr):
    """Return the real numbers of bytes, float32."""
    return (tl.div_rn(byte, 127.5) if ordered else byte / 127.5) - 1


@triton.jit
def put(images, known, at, drawn, live):
    """Store drawn bytes [b], float32, at offsets `at` of images; return them, and
    which are known. A known byte stays, and is returned instead. Its draw is
    wasted, which costs less than a branch."""
    is_known = tl.load(known + at, mask=live, other=0) != 0
    present = tl.load(images + at, mask=live, other=0).to(tl.float32)
    byte = tl.where(is_known, present, drawn)
    tl.store(images + at, byte.to(tl.uint8), mask=live)
    return byte, is_known


@triton.jit
def wrong(x):
    """Return where x is not a finite number."""
    return ~(tl.abs(x) < float("inf"))


@triton.jit
def in_bits(nats, wrong_parameters, ln2, ordered: tl.constexpr):
    """Return costs [b] in bits, float64; NaN where one of the image's parameters, [b, K] of which
    are `wrong`, is. ordered: as the CPU kernel computes them."""
    failed = tl.max(wrong_parameters.to(tl.int32), axis=1) > 0
    nats = tl.where(failed, float("nan"), nats)
    return nats * (1.0 / ln2) if ordered else nats.to(tl.float64) / ln2


@triton.jit
def owners(slot, b, at):
    """Return where the bits of each row are: in its slot, or, with `at`, in a place of its own."""
    return slot if at is None else b


@triton.jit
def totals(bits, known_bits, owner, live):
    """Return the bits [b] of each owner and those of its known bytes, float64, before this step."""
    total = tl.load(bits + owner, mask=live, other=0.0)
    known_total = tl.load(known_bits + owner, mask=live, other=0.0)
    return total, known_total


@triton.jit
def finish(
    bits, known_bits, position, slot, owner, place, total, known_total, step_bytes, live, at
):
    """Store the bits [b] of each owner and those of its known bytes, and move its slot's position,
    unless its row has an `at`."""
    tl.store(bits + owner, total, mask=live)
    tl.store(known_bits + owner, known_total, mask=live)
    if at is None:
        tl.store(position + slot, place + step_bytes, mask=live)
