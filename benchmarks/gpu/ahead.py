"""Painting ahead beside step by step: whether images have the same bytes, bits and states, how long
whole images take, their passes and rows, and what states move.

Full passes guess every pixel and are for few images; flat ones guess where neighbours are alike.
"""

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.gpu.correctness import KEPT, Snapshot, compare
from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import Sizes, attempt, model, started
from scanline.model.backends.backend import Painted
from scanline.model.backends.cuda_ahead import Pass
from scanline.model.base.state import State
from scanline.model.bench.measure import place_all
from scanline.model.sampling.base.generator import Generator

MODELS = ("mnist-small", "mnist")
COUNTS = (1, 64, 256, 4096)
PASSES = 8  # of a call


def ahead(sizes: Sizes) -> Iterator[Finding]:
    """Yield whole images of each number, painted step by step and by each kind of pass."""
    for name in sizes.models(*MODELS):
        for count in sizes.few(*COUNTS):
            what = f"ahead/{name}/{count}"
            yield from attempt(what, partial(_compared, what, name, count, sizes))


def _compared(what: str, name: str, count: int, sizes: Sizes) -> Iterator[Finding]:
    kinds = {"steps": (), "flat": (Pass(count, 4 * count, 16),)}
    if count <= 64:
        kinds["full"] = (Pass(count, 28 * count, 28),)
    expected: dict[int, Snapshot] = {}
    for kind, passes in kinds.items():
        generator = started(model(name, sizes), count, ahead=passes)
        _paint(generator)  # compiles kernels and records passes
        place_all(generator)
        painted = _paint(generator)
        state = generator.pool.state
        steps = generator.config.steps
        slots = torch.arange(min(count, KEPT), device=sizes.device)
        yield from compare(f"{what}/{kind}", {steps: Snapshot.of(generator, slots)}, expected)
        generator.close()
        note = f"{count / painted.seconds:,.0f} images/s; of an image "
        note += f"{painted.passes / count:.0f} passes, {painted.computed / count:.0f} rows"
        yield Finding(f"{what}/{kind}", 1e3 * painted.seconds, "ms", note)
        if passes:
            moved = _moved(state, painted.passes / count, steps)
            of_steps = moved / (steps * state.traffic)
            yield Finding(f"{what}/{kind}/states", of_steps, "of the traffic of steps")


def _paint(generator: Generator) -> Painted:
    """Paint the images in flight to their end."""
    painted = generator.paint(PASSES)
    while len(generator.pool.in_flight()):
        painted += generator.paint(PASSES)
    return painted


def _moved(state: State, passes: float, steps: int) -> float:
    """Return the bytes of states that so many passes move: each reads s and z, and they are read
    again and written where a period of deferred steps ends."""
    period = state.deferred.shape[2] + 1
    written = min(passes, steps / period)
    sums = state.s.nbytes + state.z.nbytes
    return sums * (passes + 2 * written) + state.deferred.nbytes / 2 * (passes + written)
