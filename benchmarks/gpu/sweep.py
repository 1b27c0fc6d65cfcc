"""Sweep over what CudaOptions leaves to a measurement: how launches are made and grouped, and the
bits of each."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.correctness import Snapshot, compare, painted
from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import PAPER, SHIPPED, Sizes, attempt, model, started, step_seconds

# of another stream, of about half a millisecond each, and how often they are repeated
COPIES = 100
LOADS = 20
COMPARED = 2048  # images whose bits are compared between two ways of launching


def sweep(sizes: Sizes) -> Iterator[Finding]:
    """Yield the time of a step by each choice, and the bits, which must be the same whatever is
    chosen."""
    name = PAPER[0]
    for count, choices in _choices(sizes).items():
        for choice, options in choices.items():
            what = f"sweep/{name}/{count}/{choice}"
            timed = partial(_timed, what, name, count, sizes, **options)
            yield from attempt(what, timed)
    yield from ways(sizes)


def _choices(sizes: Sizes) -> dict[int, dict[str, dict[str, Any]]]:
    """Return the options to try, by number of images in flight."""
    unchained: dict[str, dict[str, Any]] = {"unchained": {"chained": False}}
    if sizes.dry:
        return {sizes.most: unchained | {"2_streams": {"streams": 2, "many": 2}}}
    unchained["narrow"] = {"chained": False, "narrow": True}
    two = {"as_shipped": {}, "2_streams": {"streams": 2}}  # `goals` has those of the most images
    few: dict[str, dict[str, Any]] = {}
    for steps in (1, 8, 16):
        few[f"{steps}_steps_a_graph"] = {"steps": steps, "few": 256}
    choices = {
        sizes.most: unchained,
        1024: two | unchained,
        64: few,
        1: few | unchained,
    }
    for count in (65, 300, 1025, 2049):
        choices[count] = {"as_shipped": {}, "size_exact": {"sizes": (count,)}}
    return choices


def _timed(what: str, name: str, count: int, sizes: Sizes, **options: Any) -> Iterator[Finding]:
    generator = started(model(name, sizes), count, **options)
    times = step_seconds(generator, sizes)
    generator.close()
    yield Finding(what, 1e6 * float(np.median(times)), "us a step")


def ways(sizes: Sizes) -> Iterator[Finding]:
    """Compare states and bits of every way of launching, against launches that do not overlap.

    Chained launches read early what the launch before the last one wrote: that is where they could
    differ.
    """
    count = min(COMPARED, sizes.most)
    load = MemoryLoad(sizes)
    for name in sizes.models(*SHIPPED):
        expected: dict[int, Snapshot] = {}
        for chained, streams in ((False, 1), (True, 1), (True, 2)):
            launches = "chained" if chained else "unchained"
            what = f"sweep/same_bits/{name}/{streams}_streams/{launches}"
            options = {"chained": chained, "streams": streams, "many": 2}
            snapshots = painted(model(name, sizes), count, load.start, **options)
            load.end()
            yield from compare(what, snapshots, expected)


class MemoryLoad:
    """Copies on a stream of their own, so that kernels meanwhile do not begin and end in step with
    each other."""

    def __init__(self, sizes: Sizes) -> None:
        self.graph: torch.cuda.CUDAGraph | None = None
        if sizes.dry:
            return
        self.source = torch.empty(sizes.copied // 4, device=sizes.device)
        self.target = torch.empty_like(self.source)
        self.stream = torch.cuda.Stream()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            for _ in range(COPIES):
                self.target.copy_(self.source)

    def start(self) -> None:
        """Copy for about a second from now on."""
        if self.graph is not None:
            with torch.cuda.stream(self.stream):
                for _ in range(LOADS):
                    self.graph.replay()

    def end(self) -> None:
        """Wait for the copies: their memory must not be given to others before."""
        if self.graph is not None:
            torch.cuda.synchronize()
