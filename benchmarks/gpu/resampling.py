"""Resampling the particles of completions: copies of whole slots against a step and the rate of a copy, and a whole
call of Backend.resample with the host's part of it.

A completion is resampled at most once in a row of pixels, so that a step carries at most 1 / width of these times.
"""

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import PAPER, SHIPPED, STATES, Sizes, bits_of, microseconds, model, started, step_seconds
from scanline.model.backends.cuda import copy_particles
from scanline.model.backends.particles import Groups
from scanline.model.bench.measure import copy_rate, durations
from scanline.model.sampling.generator import Generator

PARTICLES = 16  # of an image
COPIED = (0.0, 0.5, 1.0)  # share of the particles but the first that are copied: 0 where every particle survives


def resampling(sizes: Sizes) -> Iterator[Finding]:
    """Yield times of copies between the slots of as many images as a graph takes, for both types of states."""
    copy = copy_rate(sizes.device, sizes.seconds, sizes.copied)
    for name in sizes.models(PAPER[0], *SHIPPED):
        for dtype in STATES:
            generator = started(model(name, sizes), sizes.most, dtype)
            what = f"resampling/{name}/{bits_of(dtype)}/{sizes.most}"
            step = 1e6 * float(np.median(step_seconds(generator, sizes)))
            yield Finding(f"{what}/step", step, "us", "of all slots, for comparison")
            yield from copies(what, generator, step, copy, sizes)
            yield from calls(what, generator, step, sizes)
            generator.close()


def copies(what: str, generator: Generator, step: float, copy: float, sizes: Sizes) -> Iterator[Finding]:
    """Yield microseconds of the copies alone; `step` in microseconds, `copy` in bytes a second."""
    slots, particles = torch.arange(sizes.most, device=sizes.device), min(PARTICLES, sizes.most)
    for share in COPIED:
        # in each group, the last particles become the first, which survives.
        lost = slots % particles > (1 - share) * (particles - 1)
        sources = torch.where(lost, slots - slots % particles, slots)
        count, name = int(lost.sum()), f"{what}/copies_{share:.0%}"
        time = microseconds(lambda sources=sources: copy_particles(generator.pool, sources, slots), sizes)
        moved = 2 * count * slot_bytes(generator)
        least = 1e6 * moved / copy
        yield Finding(name, time, "us", f"{count} slots; {moved / 1e9:.2f} GB, {least:.0f} us at the copy's rate")
        yield Finding(f"{name}/of_step", time / step, "")
        if count:
            yield Finding(f"{name}/of_copy", least / time, "")


@torch.inference_mode()
def calls(what: str, generator: Generator, step: float, sizes: Sizes) -> Iterator[Finding]:
    """Yield microseconds of calls of `resample` until the device has done its work: every group is resampled."""
    pool, particles = generator.pool, min(PARTICLES, sizes.most)
    slots = np.arange(sizes.most // particles * particles).reshape(-1, particles)
    groups = Groups(slots, np.full(len(slots), generator.config.first))
    # each particle but the first is 2^-4 times as likely as the one before: the first ones survive.
    known_bits = 4.0 * (torch.arange(sizes.most, device=sizes.device) % particles).double()
    times = durations(
        lambda: generator.backend.resample(pool, groups), 0.0, sizes.device, minimum_calls=sizes.calls(5),
        prepare=lambda: pool.known_bits.copy_(known_bits),
    )  # fmt: skip
    time = 1e6 * float(np.median(times))
    yield Finding(f"{what}/resample", time, "us", f"{len(slots)} images of {particles} particles, from call to end")
    yield Finding(
        f"{what}/resample/of_row", time / (time + generator.config.width * step), "", "once in a row of pixels"
    )


def slot_bytes(generator: Generator) -> int:
    """Return the bytes of a slot that are copied: state, image, bits."""
    pool = generator.pool
    return (pool.state.nbytes + pool.images.nbytes + pool.bits.nbytes) // len(pool.images)
