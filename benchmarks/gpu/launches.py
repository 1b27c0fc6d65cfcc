"""The one step of many images: how it is launched (a sweep), and what each of its kernels takes (a profile)."""

from collections.abc import Iterator

import numpy as np
import torch
from torch.profiler import DeviceType, ProfilerActivity, profile

from benchmarks.gpu.results import Finding
from benchmarks.gpu.same_bits import Snapshot, compare, painted
from benchmarks.gpu.sizes import PAPER, SHIPPED, Sizes, model
from benchmarks.gpu.timing import reason, started, step_seconds

PROFILED_STEPS = 5
BRANCHES = (1, 2, 4)
COMPARED = 2048  # images whose bits are compared between two ways of launching: enough for two branches


def sweep(sizes: Sizes) -> Iterator[Finding]:
    """Branches of a graph, chained launches, sizes of graphs: time of a step, and the bits, which must be the same."""
    name = PAPER[0]
    for count in (sizes.most, 64, 1) if not sizes.dry else (sizes.most,):
        for branches in BRANCHES if count >= 2048 else (1,):
            for chained in (False, True):
                what = f"sweep/{name}/{count}/{branches}_branches/{'chained' if chained else 'unchained'}"
                yield from _timed(what, name, count, sizes, branches=branches, chained=chained)
    yield from graph_sizes(sizes)
    yield from ways(sizes)


def graph_sizes(sizes: Sizes) -> Iterator[Finding]:
    """Just above a size of a graph, with the sizes that ship and with a graph of exactly so many images."""
    name = PAPER[0]
    for count in (65, 300, 1025, 2049) if not sizes.dry else (2,):
        yield from _timed(f"sweep/{name}/{count}/sizes_as_shipped", name, count, sizes)
        yield from _timed(f"sweep/{name}/{count}/size_exact", name, count, sizes, sizes=(count,))


def _timed(what: str, name: str, count: int, of: Sizes, **options: object) -> Iterator[Finding]:
    try:
        generator = started(model(name, of), count, **options)
        times = step_seconds(generator, of)
        generator.close()
    except (RuntimeError, ValueError) as error:
        if isinstance(error, torch.AcceleratorError):
            raise
        yield Finding(what, None, note=reason(error))
        return
    yield Finding(what, 1e6 * float(np.median(times)), "us a step")


def ways(sizes: Sizes) -> Iterator[Finding]:
    """States and bits of every way of launching, against one branch of launches that do not overlap.

    Chained launches read early what the launch before the last one wrote: that is where they could differ.
    """
    for name in SHIPPED[: 1 if sizes.dry else None]:
        expected: dict[int, Snapshot] = {}
        for branches, chained in ((1, False), (1, True), (2, True), (4, True)):
            what = f"sweep/same_bits/{name}/{branches}_branches/{'chained' if chained else 'unchained'}"
            count = min(COMPARED, sizes.most)
            found = painted(model(name, sizes), count, branches=branches, chained=chained)
            yield from compare(what, found, expected)


def kernel_profile(sizes: Sizes) -> Iterator[Finding]:
    """Microseconds of every kernel of a step: by name, and by its place in the sequence of one step.

    Launches are not chained here: a chained kernel's time has its wait for the one before in it.
    """
    for name in (PAPER[0], SHIPPED[0]) if not sizes.dry else SHIPPED[:1]:
        for count in (sizes.most, 1) if not sizes.dry else (1,):
            yield from _profile(f"profile/{name}/{count}", name, count, sizes)


def _profile(what: str, name: str, count: int, sizes: Sizes) -> Iterator[Finding]:
    generator = started(model(name, sizes), count, branches=1, chained=False)
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
