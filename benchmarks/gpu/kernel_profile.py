"""What each kernel of a step takes, by name and by its place in the sequence of launches."""

from collections.abc import Iterator

import numpy as np
import torch
from torch.profiler import DeviceType, ProfilerActivity, profile

from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import PAPER, SHIPPED, Sizes, model
from benchmarks.gpu.timing import started

PROFILED_STEPS = 5


def kernel_profile(sizes: Sizes) -> Iterator[Finding]:
    """Microseconds of every kernel of a step: by name, and by its place in the sequence of one step.

    Launches are not chained here: a chained kernel's time has its wait for the one before in it.
    """
    for name in (PAPER[0], SHIPPED[0]) if not sizes.dry else SHIPPED[:1]:
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
    by_name: dict[str, list[float]] = {}
    for event in events:
        by_name.setdefault(event.name, []).append(event.time_range.elapsed_us())
    for kernel, times in sorted(by_name.items(), key=lambda item: -sum(item[1]))[:12]:
        note = f"{len(times) / steps:.1f} of them, median {np.median(times):.2f} us"
        yield Finding(f"{what}/{kernel[:60]}", sum(times) / steps, "us a step", note)
    # The kernels of our own, in the order of their launches: copies of torch come and go with the host's calls.
    ours = [event for event in events if event.name.startswith("_")]
    if not ours or len(ours) % steps:
        yield Finding(f"{what}/sequence", None, note=f"{len(ours)} kernels in {steps} steps are no sequence")
        return
    each = len(ours) // steps
    for place in range(each):
        times = [event.time_range.elapsed_us() for event in ours[place::each]]
        yield Finding(f"{what}/launch_{place:02d}", float(np.median(times)), "us", ours[place].name)
