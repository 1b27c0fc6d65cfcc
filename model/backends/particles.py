"""Particles of an image: slots that complete the same picture with random numbers of their own,
weighed by its known bytes (sequential Monte Carlo: Gordon, Salmond and Smith 1993; Chopin and
Papaspiliopoulos 2020, chapter 10).

A particle's weight is the probability of the known bytes since the last resampling. Where few
particles have most of the weight, all are drawn anew in proportion to it, and the mean weight goes
into the estimate of the evidence, which is unbiased. The decisions are float64 operations whose
results are the same on every device and in groups of any number: each is exactly rounded, and
weights are whole multiples of 2^-40, so that their sums are exact in any order.

The same functions compute on arrays of numpy for a pool on the host, where an operation costs a
fifth of one of torch, and on tensors for a GPU, where nothing here waits for it.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch

from scanline.kernels.philox import uniforms
from scanline.kernels.philox_rounds import uniform_pair
from scanline.model.backends.groups import Groups
from scanline.model.backends.slots import SlotPool, as_numpy
from scanline.model.base.state import NUMBERS

RESAMPLING = 2**31 - 1  # in the place of a particle: the random numbers of resampling
UNIT = 2.0**40  # of which weights are whole numbers, relative to the largest
# Of 2^x from x^12 down, and of the series of log2 in odd powers of
# (m - 1) / (m + 1) from the 21st down.
EXPONENTIAL = [math.log(2) ** k / math.factorial(k) for k in range(12, -1, -1)]
LOGARITHM = [2 / (k * math.log(2)) for k in range(21, 0, -2)]

Array: TypeAlias = Any  # np.ndarray or torch.Tensor, all arguments of a function alike
Copy = Callable[[SlotPool, torch.Tensor, torch.Tensor], None]
Uniforms = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def resample(pool: SlotPool, groups: Groups, copy: Copy, draw: Uniforms | None = None) -> None:
    """Draw the particles anew, IN PLACE, of each group whose effective number is below P / 2.

    copy: as `copy_slots`, which is one way of doing it. draw: as `uniforms`; the arithmetic is
    torch's then, and without it numpy's where the pool is on the host.
    """
    slots, position, particle = _arrays(pool, groups, draw)
    weights, bits, effective = _weighed(pool, slots)
    few = effective < len(particle) / 2  # [G]: the groups that are resampled
    # On the host, only they are computed; a GPU could not say which without being waited for.
    if isinstance(few, np.ndarray):
        if not few.any():
            return
        slots = slots[few]
        position = position[few]
        weights = weights[few]
        bits = bits[few]
        few = few[few]

    # Each particle becomes a copy of its ancestor; in other groups, of itself.
    xp = _namespace(slots)
    few = few[:, None]
    uniform = _uniform(pool, slots, position, draw)
    drawn = _systematic(weights, uniform, particle)
    ancestors = xp.where(few, drawn, particle)
    sources = _gathered(slots, ancestors)
    copy(pool, _tensor(sources.ravel()), _tensor(slots.ravel()))

    # The mean weight goes into the evidence, and all weigh the same again.
    evidence = _like(slots, pool.evidence_bits)
    before = evidence[slots]
    evidence[slots] = xp.where(few, before + bits[:, None], before)
    known = _like(slots, pool.known_bits)
    known[slots] = xp.where(few, 0.0, known[slots])


def choose(pool: SlotPool, groups: Groups, draw: Uniforms | None = None) -> None:
    """Draw one particle of each group by weight and copy its image and
    bits to the leader's slot, IN PLACE.

    draw: as of `resample`.
    """
    slots, position, particle = _arrays(pool, groups, draw)
    weights, bits, _ = _weighed(pool, slots)
    uniform = _uniform(pool, slots, position, draw)
    point = uniform * weights.sum(1)
    is_chosen = _drawn(weights, point[:, None])  # [G, 1, P]
    chosen = (is_chosen * particle).sum(2)  # [G, 1]: its number
    sources = _gathered(slots, chosen)
    leaders = slots[:, 0]
    _copy_images(pool, _tensor(sources.ravel()), _tensor(leaders))
    evidence = _like(slots, pool.evidence_bits)
    evidence[slots] += bits[:, None]
    known = _like(slots, pool.known_bits)
    known[slots] = _namespace(weights).zeros_like(weights)  # a GPU would be waited for with 0


def copy_slots(
    pool: SlotPool,
    sources: torch.Tensor,  # [n] int64
    targets: torch.Tensor,  # [n] int64; none is the source of another slot
) -> None:
    """Copy state, image and bits of slots `sources` to slots `targets`, IN PLACE. Where both are the
    same, nothing happens."""
    if not pool.on_host:
        _copy_images(pool, sources, targets)
        for name in NUMBERS:
            array = getattr(pool.state, name)
            array.index_copy_(1, targets, array.index_select(1, sources))
        return
    different = sources != targets
    if different.any():
        sources = sources[different]
        targets = targets[different]
        _copy_images(pool, sources, targets)
        read = sources.numpy()
        written = targets.numpy()
        for name in NUMBERS:
            numbers = as_numpy(getattr(pool.state, name))
            numbers[:, written] = numbers[:, read]


def _copy_images(pool: SlotPool, sources: torch.Tensor, targets: torch.Tensor) -> None:
    for array in (pool.images, pool.bits):
        if pool.on_host:
            rows = array.numpy()
            rows[targets.numpy()] = rows[sources.numpy()]
        else:
            array.index_copy_(0, targets, array.index_select(0, sources))


def _arrays(
    pool: SlotPool,
    groups: Groups,
    draw: Uniforms | None,
) -> tuple[Array, Array, Array]:
    """Return slots [G, P] and positions [G] of groups, and the numbers [P] of particles, where the
    pool is."""
    slots = groups.slots
    position = groups.position
    particle = np.arange(slots.shape[1])
    if pool.on_host and draw is None:
        return slots, position, particle
    # one copy to a GPU
    parts = pool.rows(np.concatenate((slots.ravel(), position, particle)))
    sizes = (slots.size, len(position), len(particle))
    flat, position, particle = parts.split(sizes)
    return flat.view(slots.shape), position, particle


def _weighed(pool: SlotPool, slots: Array) -> tuple[Array, Array, Array]:
    """Return of groups `slots` [G, P] the weights [G, P] relative to the largest, the bits [G] of
    their mean, and the effective number of particles [G], whose minimum the pool keeps."""
    xp = _namespace(slots)
    cost = _like(slots, pool.known_bits)[slots]
    cost = xp.where(xp.isnan(cost), xp.inf, cost)
    least = xp.amin(cost, 1)

    # Where every particle has ruled out a known byte, all weigh the
    # same, and the evidence is infinite.
    impossible = xp.isinf(least)
    exponent = xp.where(impossible, 0.0, least)[:, None] - cost  # at most 0
    exponent = xp.where(impossible[:, None], 0.0, exponent)
    weights = _whole_units(power_of_two(exponent))
    total = weights.sum(1)
    mean = total * (1 / slots.shape[1])
    bits = least - logarithm(mean)

    squares = _whole_units(weights * weights)
    effective = total * total / squares.sum(1)
    smallest = _like(slots, pool.effective_particles)
    smallest[slots] = xp.minimum(smallest[slots], effective[:, None])
    return weights, bits, effective


def _whole_units(x: Array) -> Array:
    """Return x rounded to a multiple of 1 / UNIT."""
    return (x * UNIT).round() / UNIT


def _uniform(
    pool: SlotPool,
    slots: Array,  # [G, P]
    position: Array,  # [G]
    draw: Uniforms | None,
) -> Array:
    """Return the random number [G] float64 of groups at their position, of their image alone."""
    leaders = slots[:, 0]
    seed = _like(slots, pool.seed)[leaders]
    image = _like(slots, pool.index)[leaders] & 0xFFFFFFFF
    index = image + (RESAMPLING << 32)
    if isinstance(slots, np.ndarray):
        numbers = zip(seed.tolist(), index.tolist(), position.tolist(), strict=True)
        return np.array([uniform_pair(*of_group)[0] for of_group in numbers])
    if draw is None:
        draw = uniforms
    return draw(seed, index, position)[:, 0].double()


def _systematic(weights: Array, uniform: Array, particle: Array) -> Array:
    """Return the ancestor [G, P] of each particle [P], by systematic resampling: of P points at
    equal distances, the first at `uniform` [G] of it, each draws one. A particle that is drawn
    stays itself, so that the fewest are copied."""
    total = weights.sum(1)
    shares = (uniform[:, None] + particle) * (1 / len(particle))
    points = shares * total[:, None]
    times = _drawn(weights, points).sum(1)  # [G, P] that each is drawn
    # The particles that are not drawn, in order, become copies of those drawn more than once.
    copies = (times - 1).clip(min=0).cumsum(1)  # of this particle and of those before it
    place = (times == 0).cumsum(1)
    is_before = copies[:, None, :] < place[:, :, None]
    others = is_before.sum(2)
    return _namespace(weights).where(times > 0, particle, others)


def _drawn(weights: Array, points: Array) -> Array:
    """Return whether each of the points [G, n] lies in each particle's part of the weights [G, P]
    that are laid end to end: [G, n, P] bool."""
    ends = weights.cumsum(1)[:, None, :]
    starts = ends - weights[:, None, :]
    point = points[:, :, None]
    return (starts <= point) & (point < ends)


def power_of_two(x: Array) -> Array:
    """Return 2^x for x <= 0, float64, within 1e-14 of it, and 0 below 2^-100: by additions,
    multiplications and moves of bits alone, so that it has the same bits on every device, which
    torch's own function does not promise."""
    xp = _namespace(x)
    bounded = x.clip(min=-100.0)
    whole = bounded.round()
    part = bounded - whole
    power = EXPONENTIAL[0]
    for factor in EXPONENTIAL[1:]:
        power = power * part + factor
    # The exponent as IEEE 754 stores it, above 52 bits.
    exponent = xp.asarray(whole, dtype=xp.int64) + 1023
    scale = (exponent << 52).view(xp.float64)
    return xp.where(x < -100.0, 0.0, power * scale)


def logarithm(x: Array) -> Array:
    """Return log2(x) for x > 0, float64, within 1e-14 of it; as `power_of_two`, by exactly rounded
    operations."""
    xp = _namespace(x)
    mantissa, exponent = xp.frexp(x)
    low = mantissa < math.sqrt(0.5)
    mantissa = xp.where(low, mantissa * 2, mantissa)
    exponent = xp.where(low, exponent - 1, exponent)
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square = ratio * ratio
    series = LOGARITHM[0]
    for factor in LOGARITHM[1:]:
        series = series * square + factor
    return exponent + ratio * series


def _namespace(array: Array) -> Any:
    """Return numpy or torch, whose functions of the same name are used."""
    return np if isinstance(array, np.ndarray) else torch


def _like(array: Array, tensor: torch.Tensor) -> Array:
    """Return a view of a pool's tensor, of the type of an array."""
    return tensor.numpy() if isinstance(array, np.ndarray) else tensor


def _tensor(array: Array) -> torch.Tensor:
    return torch.from_numpy(array) if isinstance(array, np.ndarray) else array


def _gathered(slots: Array, particles: Array) -> Array:
    """Return the slots [G, n] of particles [G, n] of groups [G, P]."""
    if isinstance(slots, np.ndarray):
        return np.take_along_axis(slots, particles, axis=1)
    return slots.gather(1, particles)
