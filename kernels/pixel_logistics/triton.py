"""Last launch of a step on a GPU that predicts a mixture of logistics: samples the bytes channel by
channel or takes known ones, adds their cost and moves the position; a launch before it samples
those of guided images. References: reference.py, and kernels/philox.py.

An image's result does not depend on what else is in the batch. Nothing is returned to the
host: positions stay on the device.
"""

import triton
import triton.language as tl
from torch import Tensor

from scanline.kernels import LN2
from scanline.kernels.categorical.reference import VALUES
from scanline.kernels.pixel_logistics.reference import MIN_PROBABILITY, PixelLogistics
from scanline.kernels.triton import ordered as ordered_functions
from scanline.kernels.triton.pdl import options, wait
from scanline.kernels.triton.sampling import (
    Guiding,
    SlotArrays,
    check,
    draw_logistic,
    finish,
    in_bits,
    log_bin,
    log_sum_exp,
    owners,
    pick,
    put,
    real_of,
    slot_uniforms,
    slots_of_program,
    totals,
    wrong,
)

IMAGES = 4  # of a program of one warp: nearly all of its time is memory latency
ELU_LEAST = tl.constexpr(1.00010001659393310546875 - 1)  # in float32, as the CPU kernel has it
# of the program of one guided image, which computes 256 values from all components
GUIDED_WARPS = 16


def sample(
    # [B, width] float32: logits, means, raw scales, coefficients, as in reference.py
    parameters: Tensor,
    base: Tensor,  # [B, C] float32, added to the means of every component
    # [B] int64, all different: which of the S slots each row belongs to; -1: nothing is done
    slots: Tensor,
    arrays: SlotArrays,
    distribution: PixelLogistics,
    costs: Tensor | None = None,  # [B, C] float64, where to put the cost of each byte in bits
    chained: bool = False,  # by programmatic dependent launch: see kernels/triton/pdl.py
    guiding: Guiding | None = None,
    # [S] int64: not 0 where kernels/codec/triton.py has decoded the bytes
    code_range: Tensor | None = None,
    at: Tensor | None = None,  # [B] int64: the first byte of each row; see below
    ordered: bool = False,  # with the bits of the CPU kernel: see kernels/triton/ordered.py
) -> None:
    """Paint the C bytes of `images` from `position` on of the chosen slots, except known ones, add
    their cost at temperature 1 to `bits`, that of the known ones to `known_bits`, and C to
    `position`, all IN PLACE. If a parameter is NaN or infinite, bits are too.

    With `guiding`, an image is guided where its partner is not 0. Its two slots have rows 2i and 2i
    + 1, one of them with label 0: both draw its bytes as PixelLogistics.sample_guided.

    With `at`, several rows may be one slot's: they paint the bytes from `at` on, add their costs to
    bits [B] and known_bits [B] of the rows, and move no position.
    """
    check(parameters, distribution.width, slots, arrays.images, arrays.known)
    if base.shape != (len(slots), distribution.channels):
        raise ValueError(
            f"base {list(base.shape)} does not fit {len(slots)} pixels of {distribution.channels} bytes"
        )
    assert base.is_contiguous()
    components = distribution.components
    channels = distribution.channels
    length = arrays.images.shape[1]
    sizes = (
        components,
        channels,
        distribution.width,
        max(16, triton.next_power_of_2(components))
        if ordered
        else triton.next_power_of_2(components),
        triton.next_power_of_2(channels),
        distribution.scale,
        ordered,
    )
    partner = None
    if guiding is not None:
        partner = guiding[1]
        _sample_guided[(len(slots),)](
            parameters,
            base,
            slots,
            *arrays.pointers,
            *guiding,
            at,
            length,
            *sizes,
            VALUES,
            MIN_PROBABILITY,
            num_warps=GUIDED_WARPS,
            **options(chained),
        )
    _sample[(triton.cdiv(len(slots), IMAGES),)](
        parameters,
        base,
        slots,
        *arrays.pointers,
        costs,
        partner,
        code_range,
        at,
        len(slots),
        length,
        *sizes,
        LN2,
        IMAGES,
        num_warps=1,
        **options(chained),
    )


@triton.jit
def own_means(
    first, base, k, channel: tl.constexpr, components, channels: tl.constexpr, inside, live
):
    """Return the means [b, K] of a channel, not yet moved by the earlier ones; `first` [b, 1]
    points to the parameters of each image, `base` [b] to its base."""
    means = tl.load(first + components + k * channels + channel, mask=inside, other=0.0)
    return means + tl.load(base + channel, mask=live, other=0.0)[:, None]


@triton.jit
def raw_scales(first, k, channel: tl.constexpr, components, channels: tl.constexpr, inside):
    """Return the parameters [b, K] of a channel's scales."""
    return tl.load(
        first + components * (1 + channels) + k * channels + channel, mask=inside, other=0.0
    )


@triton.jit
def coefficients(
    first,
    k,
    channel: tl.constexpr,
    earlier: tl.constexpr,
    components,
    channels: tl.constexpr,
    inside,
):
    """Return by how much [b, K] the error of an earlier channel moves the means of a channel."""
    which = k * (channels * (channels - 1) // 2) + channel * (channel - 1) // 2 + earlier
    return tl.load(first + components * (1 + 2 * channels) + which, mask=inside, other=0.0)


@triton.jit
def _means(
    first, base, k, c, seen, channel: tl.constexpr, components, channels: tl.constexpr, inside, live
):
    """Return the means [b, K] of a channel, moved by the errors of the earlier ones, and where a
    parameter of them is not finite; seen [b, C] are the real numbers of the earlier bytes."""
    means = own_means(first, base, k, channel, components, channels, inside, live)
    unusable = inside & wrong(means)
    for earlier in tl.static_range(channel):
        # Registers cannot be indexed: a channel of `seen` is read by a masked sum.
        error = tl.sum(tl.where(c == earlier, seen, 0.0), axis=1)[:, None]
        error -= own_means(first, base, k, earlier, components, channels, inside, live)
        factors = coefficients(first, k, channel, earlier, components, channels, inside)
        means += factors * error
        unusable |= inside & wrong(factors)
    return means, unusable


@triton.jit
def _scales(
    first,
    k,
    channel: tl.constexpr,
    components,
    channels: tl.constexpr,
    inside,
    scale: tl.constexpr,
    ordered: tl.constexpr,
):
    """Return the scales [b, K] of a channel at temperature 1, and where they are not finite
    numbers."""
    raw = raw_scales(first, k, channel, components, channels, inside)
    least = tl.maximum(raw, -7.0) if scale == "exp" else raw
    power = ordered_functions.exponential(least) if ordered else tl.exp(least)
    if scale == "exp":
        scales = power
    else:
        scales = tl.where(raw > 0, raw + 1.0001, power + (ELU_LEAST if ordered else 0.0001))
    return scales, inside & wrong(raw)


@triton.jit(do_not_specialize=["batch"])  # one program code for all batches
def _sample(
    parameters,
    base,
    slots,
    images,
    known,
    bits,
    known_bits,
    temperature,
    seed,
    index,
    position,
    costs,
    partner,
    code_range,
    row_places,
    batch,
    length,
    components,
    channels: tl.constexpr,
    width,
    block_k: tl.constexpr,
    block_c: tl.constexpr,
    scale: tl.constexpr,
    ordered: tl.constexpr,
    ln2: tl.constexpr,
    block: tl.constexpr,
    chained: tl.constexpr,
):
    # Parameters come from the previous kernel, and images and positions of this
    # pixel were read by kernels before it.
    wait(chained)
    b, slot, live, place, image_temperature = slots_of_program(
        slots, position, temperature, batch, block, row_places
    )
    owner = owners(slot, b, row_places)
    # Whose bytes the launch before this one has painted: those of guided images, and decoded ones.
    painted = tl.zeros_like(live)
    if partner is not None:
        painted |= tl.load(partner + slot, mask=live, other=0) != 0
    if code_range is not None:
        painted |= tl.load(code_range + slot, mask=live, other=0) != 0

    # K is padded to a power of two with logits of minus infinity, which weigh nothing.
    k = tl.arange(0, block_k)[None, :]
    c = tl.arange(0, block_c)[None, :]
    there = k < components
    inside = live[:, None] & there
    first = parameters + b[:, None] * width
    image_base = base + b * channels
    logits = tl.load(first + k, mask=inside, other=0.0)
    logits = tl.where(there, logits, -float("inf"))

    # The log-weight of each component, times what it gave to the earlier bytes: at the
    # image's temperature, from which later bytes draw theirs, and at 1, for the cost. What a
    # byte adds to the latter's sum is its cost.
    if ordered:
        weights = tl.div_rn(logits, image_temperature[:, None])
    else:
        weights = logits / image_temperature[:, None]
    cost_weights = logits
    log_earlier = log_sum_exp(cost_weights, there, ordered)
    total, known_total = totals(bits, known_bits, owner, live)
    unusable = inside & wrong(logits)
    seen = tl.zeros((block, block_c), tl.float32)
    for channel in tl.static_range(channels):
        scales, unusable_scales = _scales(
            first, k, channel, components, channels, inside, scale, ordered
        )
        own_scales = scales * image_temperature[:, None]
        means, unusable_means = _means(
            first, image_base, k, c, seen, channel, components, channels, inside, live
        )
        unusable |= unusable_means | unusable_scales

        # Draw a component by its weight given the earlier bytes, then a value from its logistic:
        # masked sums pick the chosen component's mean and scale.
        u, w = slot_uniforms(seed, index, slot, place + channel, live)
        chosen = k == pick(weights, None, u, there, components, ordered)[:, None]
        mean = tl.sum(tl.where(chosen, means, 0.0), axis=1)
        spread = tl.sum(tl.where(chosen, own_scales, 0.0), axis=1)
        at = slot * length + place + channel
        drawn = draw_logistic(mean, spread, w, ordered)
        if partner is not None or code_range is not None:
            drawn = tl.where(
                painted, tl.load(images + at, mask=painted, other=0).to(tl.float32), drawn
            )
        byte, is_known = put(images, known, at, drawn, live)

        # What each component gives the byte, known or painted,
        # decides the components of the later ones.
        weights += log_bin(byte, means, own_scales, ordered)
        cost_weights += log_bin(byte, means, scales, ordered)
        seen = tl.where(c == channel, real_of(byte, ordered)[:, None], seen)
        log_painted = log_sum_exp(cost_weights, there, ordered)
        cost = in_bits(log_earlier - log_painted, unusable, ln2, ordered)
        if costs is not None:
            tl.store(costs + b * channels + channel, cost, mask=live)
        total += cost
        known_total += tl.where(is_known, cost, 0.0)
        log_earlier = log_painted
    finish(
        bits,
        known_bits,
        position,
        slot,
        owner,
        place,
        total,
        known_total,
        channels,
        live,
        row_places,
    )


@triton.jit
def _sample_guided(
    parameters,
    base,
    slots,
    images,
    known,
    bits,
    known_bits,
    temperature,
    seed,
    index,
    position,
    label,
    partner,
    guidance,
    row_places,
    length,
    components,
    channels: tl.constexpr,
    width,
    block_k: tl.constexpr,
    block_c: tl.constexpr,
    scale: tl.constexpr,
    ordered: tl.constexpr,
    values: tl.constexpr,
    least: tl.constexpr,
    chained: tl.constexpr,
):
    wait(chained)
    # One image a program, in tensors of one row: its many warps share the [256, K]
    # log-probabilities of each label, which are in registers.
    b, slot, live, place, image_temperature = slots_of_program(
        slots, position, temperature, tl.num_programs(0), 1, row_places
    )
    is_guided = live & (tl.load(partner + slot, mask=live, other=0) != 0)
    if tl.max(is_guided.to(tl.int32), axis=0) > 0:
        # Rows 2i and 2i + 1 are the image's slots, so b ^ 1 is the partner's row.
        has_class = tl.load(label + slot, mask=live, other=0) != 0
        of_class = tl.where(has_class, b, b ^ 1)
        of_any = tl.where(has_class, b ^ 1, b)
        weight = tl.load(guidance + slot, mask=live, other=1.0)[:, None]
        k = tl.arange(0, block_k)[None, :]
        c = tl.arange(0, block_c)[None, :]
        value = tl.arange(0, values)
        there = k < components
        inside = live[:, None] & there
        first_c = parameters + of_class[:, None] * width
        first_u = parameters + of_any[:, None] * width
        base_c = base + of_class * channels
        base_u = base + of_any * channels
        weights_c = tl.where(there, tl.load(first_c + k, mask=inside, other=0.0), -float("inf"))
        weights_u = tl.where(there, tl.load(first_u + k, mask=inside, other=0.0), -float("inf"))
        unusable = inside & (wrong(weights_c) | wrong(weights_u))
        seen = tl.zeros((1, block_c), tl.float32)
        for channel in tl.static_range(channels):
            means_c, wrong_c = _means(
                first_c, base_c, k, c, seen, channel, components, channels, inside, live
            )
            means_u, wrong_u = _means(
                first_u, base_u, k, c, seen, channel, components, channels, inside, live
            )
            scales_c, odd_c = _scales(
                first_c, k, channel, components, channels, inside, scale, ordered
            )
            scales_u, odd_u = _scales(
                first_u, k, channel, components, channels, inside, scale, ordered
            )
            unusable |= wrong_c | wrong_u | odd_c | odd_u

            # The first uniform of the byte picks it; the second is not used.
            u, _ = slot_uniforms(seed, index, slot, place + channel, live)
            in_byte = value[None, :] < values
            if ordered:
                with_class = _ordered_log_probabilities(
                    weights_c, means_c, scales_c, there, components, value, least
                )
                without = _ordered_log_probabilities(
                    weights_u, means_u, scales_u, there, components, value, least
                )
                mixed = tl.fma(weight, with_class - without, without)
            else:
                with_class = _log_probabilities(weights_c, means_c, scales_c, value, least)
                without = _log_probabilities(weights_u, means_u, scales_u, value, least)
                mixed = without + weight * (with_class - without)
            picked = pick(mixed, image_temperature, u, in_byte, values, ordered)
            byte, _ = put(
                images, known, slot * length + place + channel, picked.to(tl.float32), live
            )
            weights_c += log_bin(byte, means_c, scales_c, ordered)
            weights_u += log_bin(byte, means_u, scales_u, ordered)
            seen = tl.where(c == channel, real_of(byte, ordered)[:, None], seen)
        failed = tl.max(unusable.to(tl.int32), axis=1) > 0
        owner = owners(slot, b, row_places)
        tl.store(bits + owner, tl.full((1,), float("nan"), tl.float64), mask=live & failed)


@triton.jit
def _log_probabilities(log_weights, means, scales, value, least: tl.constexpr):
    """Return the logarithms [1, 256] of the probabilities of all values of a byte, of components
    [1, K]."""
    logs = (
        log_bin(value.to(tl.float32), means, scales, False)
        + log_weights
        - log_sum_exp(log_weights, None, False)[:, None]
    )
    return tl.log(tl.maximum(tl.sum(tl.exp(logs), axis=1), least))[None, :]


@triton.jit
def _ordered_log_probabilities(
    log_weights, means, scales, there, components, value, least: tl.constexpr
):
    """As _log_probabilities, with the operations of log_probabilities of pixel_logistics.h: a sum
    over components in their order, without those of next to no weight."""
    half_bin: tl.constexpr = 1 / 255
    least_weight: tl.constexpr = 2**-66
    farthest: tl.constexpr = -35.0
    lowest: tl.constexpr = -0.996078431606292724609375  # half_bin - 1 in float32
    _, weights, _, total = ordered_functions.weigh(log_weights, None, there)
    weights = tl.div_rn(tl.reshape(weights, log_weights.shape), total[:, None])
    k = tl.arange(0, log_weights.shape[1])[None, :]
    half = tl.div_rn(half_bin, scales)
    halves = ordered_functions.exponential(-half)
    rates = tl.div_rn(1.0, scales)
    shares = weights * ordered_functions.one_minus_exponential(2 * half)
    below = ordered_functions.exponential(-tl.div_rn(lowest - means, scales))
    above = ordered_functions.exponential(-tl.div_rn(lowest + means, scales))
    blacks = tl.div_rn(weights, below + 1.0)
    whites = tl.div_rn(weights, above + 1.0)
    real = ordered_functions.real_of(value.to(tl.float32))[None, :]
    total = tl.zeros(real.shape, tl.float32)
    black = tl.zeros((1,), tl.float32)
    white = tl.zeros((1,), tl.float32)
    for component in range(components):
        chosen = k == component
        counts = tl.sum(tl.where(chosen, weights, 0.0), axis=1) >= least_weight
        mean = tl.sum(tl.where(chosen, means, 0.0), axis=1)
        rate = tl.sum(tl.where(chosen, rates, 0.0), axis=1)
        share = tl.sum(tl.where(chosen, shares, 0.0), axis=1)
        tail = tl.sum(tl.where(chosen, halves, 0.0), axis=1)[:, None]
        away = (real - mean[:, None]) * rate[:, None]
        away = tl.where(away > 0.0, -away, away)
        a = ordered_functions.exponential(ordered_functions.larger(away, farthest))
        inner = tl.div_rn(share[:, None] * a, (a + tail) * (a * tail + 1.0))
        total = tl.where(counts[:, None], total + inner, total)
        black = tl.where(counts, black + tl.sum(tl.where(chosen, blacks, 0.0), axis=1), black)
        white = tl.where(counts, white + tl.sum(tl.where(chosen, whites, 0.0), axis=1), white)
    total = tl.where(value[None, :] == 0, black[:, None], total)
    total = tl.where(value[None, :] == 255, white[:, None], total)
    return ordered_functions.logarithm(ordered_functions.larger(total, least))
