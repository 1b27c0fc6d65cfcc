"""The recurrence of a layer alone, which takes most of a step; the profile of a step."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import torch
from torch.profiler import DeviceType, ProfilerActivity, profile

import scanline.kernels.step.fused_triton as step
from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import (
    PAPER,
    SHIPPED,
    STATES,
    Sizes,
    attempt,
    bits_of,
    config,
    microseconds,
    model,
    started,
)
from scanline.model.base.config import ModelConfig
from scanline.model.base.precision import DEFERRED
from scanline.model.base.state import State
from scanline.model.bench.measure import copy_rate


def state_tiles(sizes: Sizes) -> Iterator[Finding]:
    """Yield times of the recurrence of a layer for all images, and its share of the copy
    rate: of models of 6, 5 and 8 heads, by what a program has of them and by whether states
    are written in every step or fewer."""
    copy = copy_rate(sizes.device, sizes.seconds, sizes.copied)
    for name in sizes.models(*SHIPPED, PAPER[0]):
        # More than one layer, so that none finds its states in the L2.
        layers = replace(config(name, sizes), layers=1 if sizes.dry else 4)
        for dtype, warps, deferred in product(STATES, (4, 2, 1), (0, DEFERRED)):
            what = f"state_tiles/{name}/{bits_of(dtype)}/{warps}_warps/every_{deferred + 1}"
            state = State.zeros(layers, sizes.most, sizes.device, dtype, deferred)
            timed = partial(_state_tile, what, layers, state, warps, copy, sizes)
            yield from attempt(what, timed)


def _state_tile(
    what: str,
    config: ModelConfig,
    state: State,
    warps: int,
    copy: float,  # bytes/s
    sizes: Sizes,
) -> Iterator[Finding]:
    batch = sizes.most
    device = sizes.device
    width = config.heads * (2 * config.key_width + config.value_width)
    projected = torch.randn(batch, width, device=device)
    rows = torch.randperm(batch, device=device)
    y = torch.empty(batch, config.heads * config.value_width, device=device)
    elements = warps * step.WARP_ELEMENTS
    # as many images as any at each distance from their next write
    state.position.copy_(torch.arange(batch))

    def run() -> None:
        for s, z, deferred in zip(state.s, state.z, state.deferred, strict=True):
            step.fused_recurrent_step(
                projected, s, z, deferred, state.position, rows, y=y, elements=elements
            )

    time = microseconds(run, sizes) / config.layers
    moved = state.traffic / config.layers + projected.nbytes + y.nbytes
    yield Finding(what, time, "us a layer")
    of_copy = 1e6 * moved / time / copy
    yield Finding(f"{what}/of_copy", of_copy, "", f"{moved / 1e6:.0f} MB")


PROFILED_STEPS = 5


def kernel_profile(sizes: Sizes) -> Iterator[Finding]:
    """Yield microseconds of every kernel of a step: by name, and by its place in the sequence of
    one step.

    Launches are not chained here: a chained kernel's time has its wait for the one before in it.
    """
    for name in sizes.models(PAPER[0], SHIPPED[0]):
        for count in sizes.few(1, sizes.most):
            yield from _profile(f"profile/{name}/{count}", name, count, sizes)


def _profile(what: str, name: str, count: int, sizes: Sizes) -> Iterator[Finding]:
    generator = started(model(name, sizes), count, chained=False, steps=1)
    steps = min(PROFILED_STEPS, generator.config.steps // 2)
    generator.advance(steps)
    activity = ProfilerActivity.CPU if sizes.dry else ProfilerActivity.CUDA
    with profile(activities=[activity]) as trace:
        generator.advance(steps)
        if not sizes.dry:
            torch.cuda.synchronize()
    generator.close()
    kind = DeviceType.CPU if sizes.dry else DeviceType.CUDA
    events = [event for event in trace.events() if event.device_type == kind]
    events.sort(key=lambda event: event.time_range.start)
    timed = [(event.name, event.time_range.elapsed_us()) for event in events]
    yield from by_name(what, timed, steps)
    # The kernels of this repository alone: copies of torch come and go with the host's calls.
    of_steps = [(kernel, time) for kernel, time in timed if kernel.startswith("_")]
    yield from by_place(what, of_steps, steps)


def by_name(what: str, timed: list[tuple[str, float]], steps: int) -> Iterator[Finding]:
    """Yield the twelve kernels that take most of a step, from the names and microseconds of all
    launches."""
    times: dict[str, list[float]] = {}
    for kernel, time in timed:
        times.setdefault(kernel, []).append(time)
    longest = sorted(times, key=lambda kernel: -sum(times[kernel]))
    for kernel in longest[:12]:
        launches = times[kernel]
        note = f"{len(launches) / steps:.1f} of them, median {np.median(launches):.2f} us"
        time_of_step = sum(launches) / steps
        yield Finding(f"{what}/{kernel[:60]}", time_of_step, "us a step", note)


def by_place(what: str, timed: list[tuple[str, float]], steps: int) -> Iterator[Finding]:
    """Yield the median of each launch of a step, in their order, which is the same in every
    step."""
    launches = len(timed) // steps  # of a step
    names = [kernel for kernel, _ in timed]
    if not launches or names != names[:launches] * steps:
        note = f"{len(timed)} launches in {steps} steps are no sequence"
        yield Finding(f"{what}/sequence", None, note=note)
        return
    for place in range(launches):
        times = [time for _, time in timed[place::launches]]
        median = float(np.median(times))
        yield Finding(f"{what}/launch_{place:02d}", median, "us", names[place])
