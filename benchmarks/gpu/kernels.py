"""The profile of a step."""

from collections.abc import Iterator

import numpy as np
import torch
from torch.profiler import DeviceType, ProfilerActivity, profile

from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import PAPER, SHIPPED, Sizes, model, started

PROFILED_STEPS = 5
Timed = list[tuple[str, float]]  # names of kernels and microseconds of their launches, in order


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
    activity = ProfilerActivity.CUDA
    kind = DeviceType.CUDA
    if sizes.dry:
        activity = ProfilerActivity.CPU
        kind = DeviceType.CPU
    with profile(activities=[activity]) as trace:
        generator.advance(steps)
        if not sizes.dry:
            torch.cuda.synchronize()
    generator.close()
    events = [event for event in trace.events() if event.device_type == kind]
    timed: Timed = []
    for event in sorted(events, key=lambda event: event.time_range.start):
        timed.append((event.name, event.time_range.elapsed_us()))
    yield from by_name(what, timed, steps)
    # The kernels of this repository alone: copies of torch come and go with the host's calls.
    ours = [launch for launch in timed if launch[0].startswith("_")]
    yield from by_place(what, ours, steps)


def by_name(what: str, timed: Timed, steps: int) -> Iterator[Finding]:
    """Yield the twelve kernels that take most of a step."""
    times: dict[str, list[float]] = {}
    for kernel, time in timed:
        times.setdefault(kernel, []).append(time)
    longest = sorted(times, key=lambda kernel: -sum(times[kernel]))
    for kernel in longest[:12]:
        launches = times[kernel]
        count = len(launches) / steps
        median = np.median(launches)
        time_of_step = sum(launches) / steps
        note = f"{count:.1f} of them, median {median:.2f} us"
        yield Finding(f"{what}/{kernel[:60]}", time_of_step, "us a step", note)


def by_place(what: str, timed: Timed, steps: int) -> Iterator[Finding]:
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
