"""Particles of an image: slots that complete the same picture with random numbers of their own, weighed by its known
bytes (sequential Monte Carlo: Gordon, Salmond and Smith 1993; Chopin and Papaspiliopoulos 2020, chapter 10).

A particle's weight is the probability of the known bytes since the last resampling. Where few particles have most of
the weight, all are drawn anew in proportion to it, and the mean weight goes into the estimate of the evidence, which is
unbiased. The decisions are float64 operations whose results are the same on every device and in groups of any number:
weights are whole multiples of 2^-40, so that their sums are exact in any order. Nothing here waits for a GPU.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from scanline.kernels.philox import uniforms
from scanline.model.backends.slots import SlotPool

RESAMPLING = 2**31 - 1  # in the place of a particle: the random numbers of resampling
UNIT = 2.0**40  # of which weights are whole numbers, relative to the largest
# Of 2^x from x^12 down, and of the series of log2 in odd powers of (m - 1) / (m + 1) from the 21st down.
EXPONENTIAL = [math.log(2) ** k / math.factorial(k) for k in range(12, -1, -1)]
LOGARITHM = [2 / (k * math.log(2)) for k in range(21, 0, -2)]

Copy = Callable[[SlotPool, torch.Tensor, torch.Tensor], None]
Uniforms = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Groups:
    """Groups of P particles each; a group stands at one position, all known bytes before which are weighed."""

    slots: np.ndarray  # [G, P] int64, all different; a group's first is its leader, in which its image ends
    position: np.ndarray  # [G] int64: of the byte that comes next


@contextmanager
def _one_thread() -> Iterator[None]:
    """No threads of torch's own inside: they would cost more than they save, and spin beside those of a step."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@_one_thread()
def resample(pool: SlotPool, groups: Groups, copy: Copy, draw: Uniforms = uniforms) -> None:
    """Draw the particles anew, IN PLACE, of each group whose effective number is below P / 2.

    copy, draw: as `copy_slots` and `uniforms`, which are one way of doing it.
    """
    slots, position = _on_device(pool, groups)
    weights, bits, effective = _weighed(pool, slots)
    few = (effective < slots.shape[1] / 2).unsqueeze(1)  # [G, 1]
    if pool.on_host and not few.any():  # which a GPU could not say without being waited for
        return
    itself = torch.arange(slots.shape[1], device=slots.device)
    ancestors = torch.where(few, _systematic(weights, _uniform(pool, slots, position, draw)), itself)
    copy(pool, slots.gather(1, ancestors).flatten(), slots.flatten())
    evidence, known = pool.evidence_bits[slots], pool.known_bits[slots]
    pool.evidence_bits[slots] = torch.where(few, evidence + bits.unsqueeze(1), evidence)
    pool.known_bits[slots] = known.masked_fill(few, 0.0)


@_one_thread()
def choose(pool: SlotPool, groups: Groups, draw: Uniforms = uniforms) -> None:
    """Draw one particle of each group by weight and copy its image and bits to the leader's slot, IN PLACE.

    draw: as `uniforms`, which is one way of doing it.
    """
    slots, position = _on_device(pool, groups)
    weights, bits, _ = _weighed(pool, slots)
    point = _uniform(pool, slots, position, draw) * weights.sum(dim=1)
    chosen = torch.searchsorted(weights.cumsum(dim=1), point.unsqueeze(1), right=True)
    _copy_images(pool, slots.gather(1, chosen).flatten(), slots[:, 0])
    pool.evidence_bits[slots] += bits.unsqueeze(1)
    pool.known_bits[slots] = 0.0


def copy_slots(pool: SlotPool, sources: torch.Tensor, targets: torch.Tensor) -> None:
    """Copy state, image and bits of slots `sources` [n] int64 to slots `targets` [n], IN PLACE; no target is the source
    of another slot. Where both are the same, nothing happens."""
    if not pool.on_host:
        _copy_images(pool, sources, targets)
        for array in (pool.state.s, pool.state.z):
            array.index_copy_(1, targets, array.index_select(1, sources))
        return
    different = sources != targets
    if different.any():
        sources, targets = sources[different], targets[different]
        _copy_images(pool, sources, targets)
        for array in (pool.state.s, pool.state.z):
            array.numpy()[:, targets.numpy()] = array.numpy()[:, sources.numpy()]


def _copy_images(pool: SlotPool, sources: torch.Tensor, targets: torch.Tensor) -> None:
    for array in (pool.images, pool.bits):
        if pool.on_host:
            array.numpy()[targets.numpy()] = array.numpy()[sources.numpy()]
        else:
            array.index_copy_(0, targets, array.index_select(0, sources))


def _on_device(pool: SlotPool, groups: Groups) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns slots [G, P] and positions [G] of groups where the pool is."""
    both = pool.rows(np.concatenate((groups.slots.ravel(), groups.position)))
    return both[: groups.slots.size].view(groups.slots.shape), both[groups.slots.size :]


def _weighed(pool: SlotPool, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns of groups `slots` [G, P] the weights [G, P] relative to the largest, the bits [G] of their mean, and the
    effective number of particles [G], whose minimum the pool keeps."""
    cost = pool.known_bits[slots].nan_to_num(nan=torch.inf, posinf=torch.inf)
    least = cost.min(dim=1, keepdim=True).values
    # Where every particle has ruled out a known byte, all weigh the same, and the evidence is infinite.
    weights = (power_of_two(torch.where(least.isinf(), 0.0, least - cost)) * UNIT).round() / UNIT
    total, squares = weights.sum(dim=1), ((weights.square() * UNIT).round() / UNIT).sum(dim=1)
    effective = total.square() / squares
    smallest = torch.minimum(pool.effective_particles[slots], effective.unsqueeze(1))
    pool.effective_particles[slots] = smallest
    return weights, least.squeeze(1) - logarithm(total * (1 / slots.shape[1])), effective


def _uniform(pool: SlotPool, slots: torch.Tensor, position: torch.Tensor, draw: Uniforms) -> torch.Tensor:
    """Returns the random number [G] float64 of groups at `position` [G], of their image alone."""
    leaders = slots[:, 0]
    image = pool.index[leaders] & 0xFFFFFFFF
    return draw(pool.seed[leaders], image + (RESAMPLING << 32), position)[:, 0].double()


def _systematic(weights: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Returns the ancestor [G, P] of each particle, by systematic resampling: of P points at equal distances, the first
    at `uniform` [G] of it, each draws one. A particle that is drawn stays itself, so that the fewest are copied."""
    particles = weights.shape[1]
    step = torch.arange(particles, device=weights.device)
    points = (uniform.unsqueeze(1) + step) * (1 / particles) * weights.sum(dim=1, keepdim=True)
    drawn = torch.searchsorted(weights.cumsum(dim=1), points, right=True)  # ascending
    again = torch.zeros_like(drawn)
    again[:, 1:] = drawn[:, 1:] == drawn[:, :-1]
    survives = torch.zeros_like(drawn).scatter_(1, drawn, 1)
    # Those drawn more than once, in order, for the particles that are not drawn; then each that is drawn for itself.
    ancestors = drawn.gather(1, again.argsort(dim=1, descending=True, stable=True))
    return torch.empty_like(drawn).scatter_(1, survives.argsort(dim=1, stable=True), ancestors)


def power_of_two(x: torch.Tensor) -> torch.Tensor:
    """Returns 2^x for x <= 0, float64, within 1e-14 of it, and 0 below 2^-100: by additions, multiplications and moves
    of bits alone, so that it has the same bits on every device, which torch's own function does not promise."""
    whole = x.clamp(min=-100.0).round()
    part, power = x.clamp(min=-100.0) - whole, torch.zeros_like(x)
    for factor in EXPONENTIAL:
        power = power * part + factor
    power = power * ((whole.long() + 1023) << 52).view(torch.float64)
    return power.masked_fill(x < -100.0, 0.0)


def logarithm(x: torch.Tensor) -> torch.Tensor:
    """Returns log2(x) for x > 0, float64, within 1e-14 of it; as `power_of_two`, by exactly rounded operations."""
    mantissa, exponent = torch.frexp(x)
    low = mantissa < math.sqrt(0.5)
    mantissa, exponent = torch.where(low, mantissa * 2, mantissa), exponent - low.int()
    ratio = (mantissa - 1.0) / (mantissa + 1.0)
    square, series = ratio * ratio, torch.zeros_like(ratio)
    for factor in LOGARITHM:
        series = series * square + factor
    return exponent + ratio * series
