"""Profile of a step: what each kernel takes, by name and by its place in the sequence of launches."""

from collections.abc import Iterator

import numpy as np
import torch
from torch.profiler import DeviceType, ProfilerActivity, profile

from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import PAPER, SHIPPED, Sizes, model
from benchmarks.gpu.timing import started

PROFILED_STEPS = 5


def kernel_profile(sizes: Sizes) -> Iterator[Finding]:
    """Yield microseconds of every kernel of a step: by name, and by its place in the sequence of one step.

    Launches are not chained here: a chained kernel's time has its wait for the one before in it.
    """
    for name in sizes.models(PAPER[0], SHIPPED[0]):
        for count in (sizes.most, 1) if not sizes.dry else (1,):
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
    events = sorted((e for e in trace.events() if e.device_type == kind), key=lambda e: e.time_range.start)
    timed = [(event.name, event.time_range.elapsed_us()) for event in events]
    yield from by_name(what, timed, steps)
    # the kernels of our own alone: copies of torch come and go with the host's calls.
    yield from by_place(what, [(kernel, time) for kernel, time in timed if kernel.startswith("_")], steps)


def by_name(what: str, timed: list[tuple[str, float]], steps: int) -> Iterator[Finding]:
    """Yield the twelve kernels that take most of a step, from the names and microseconds of all launches."""
    times: dict[str, list[float]] = {}
    for kernel, time in timed:
        times.setdefault(kernel, []).append(time)
    for kernel, launches in sorted(times.items(), key=lambda item: -sum(item[1]))[:12]:
        note = f"{len(launches) / steps:.1f} of them, median {np.median(launches):.2f} us"
        yield Finding(f"{what}/{kernel[:60]}", sum(launches) / steps, "us a step", note)


def by_place(what: str, timed: list[tuple[str, float]], steps: int) -> Iterator[Finding]:
    """Yield the median of each launch of a step, in their order, which is the same in every step."""
    each, beyond = divmod(len(timed), steps)
    names = [kernel for kernel, _ in timed]
    if not each or beyond or names != names[:each] * steps:
        yield Finding(f"{what}/sequence", None, note=f"{len(timed)} launches in {steps} steps are no sequence")
        return
    for place in range(each):
        times = [time for _, time in timed[place::each]]
        yield Finding(f"{what}/launch_{place:02d}", float(np.median(times)), "us", names[place])
