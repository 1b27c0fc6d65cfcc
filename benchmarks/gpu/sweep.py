"""What CudaOptions leaves to a measurement: how launches are made and grouped, and the bits, whatever is chosen."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.same_bits import Snapshot, compare, painted
from benchmarks.gpu.sizes import PAPER, SHIPPED, Sizes, model
from benchmarks.gpu.timing import make_generator, started, step_seconds, survived
from scanline.model.bench.measure import durations

ROWS = (4096, 16_384)  # positions in one pass of reading
COPIES, LOADS = 100, 20  # of another stream, of about half a millisecond each, and how often they are repeated
COMPARED = 2048  # images whose bits are compared between two ways of launching: enough for two branches


def sweep(sizes: Sizes) -> Iterator[Finding]:
    """What CudaOptions leaves to a measurement, one after the other: time of a step, and the bits, which must be the
    same whatever is chosen."""
    name = PAPER[0]
    for count, choices in _choices(sizes).items():
        for what, options in choices.items():
            yield from _timed(f"sweep/{name}/{count}/{what}", name, count, sizes, **options)
    yield from read_sizes(sizes)
    yield from ways(sizes)


def read_sizes(sizes: Sizes) -> Iterator[Finding]:
    """Images/s of scoring, by how many images are read side by side and how many of their positions in one pass."""
    network = model(PAPER[0], sizes)
    images = np.random.default_rng(0).integers(0, 256, (sizes.read, network.config.bytes), np.uint8)
    few = {"1_at_once": {"reads": 1, "read_rows": 4}, "2_at_once": {"reads": 2, "read_rows": 4}}
    many = {f"{reads}_at_once_{rows}_rows": {"reads": reads, "read_rows": rows} for reads in (64, 256) for rows in ROWS}
    for what, options in (few if sizes.dry else many).items():
        name = f"sweep/score/{PAPER[0]}/{what}"
        try:
            generator = make_generator(network, 1, **options)
            calls = 1 if sizes.dry else 3
            times = durations(lambda g=generator: g.score(images), 0.0, sizes.device, calls)
            generator.close()
        except Exception as error:
            yield Finding(name, None, note=survived(error))
            continue
        yield Finding(name, len(images) / float(np.median(times)), "images/s")


def _choices(sizes: Sizes) -> dict[int, dict[str, dict[str, Any]]]:
    """The options to try, by number of images in flight."""
    if sizes.dry:
        return {sizes.most: {"unchained": {"chained": False}, "2_branches": {"branches": 2, "branch_images": 1}}}
    few = {f"{steps}_steps_a_graph": {"steps": steps, "few": 256} for steps in (1, 8, 16)}
    many = {f"{branches}_branches": {"branches": branches, "branch_images": 512} for branches in (1, 2, 4)}
    unchained: dict[str, dict[str, Any]] = {"unchained": {"chained": False}}
    exact = {count: {"as_shipped": {}, "size_exact": {"sizes": (count,)}} for count in (65, 300, 1025, 2049)}
    return {sizes.most: {**many, **unchained}, 1024: {**many, **unchained}, 64: few, 1: {**few, **unchained}, **exact}


def _timed(what: str, name: str, count: int, of: Sizes, **options: Any) -> Iterator[Finding]:
    try:
        generator = started(model(name, of), count, **options)
        times = step_seconds(generator, of)
        generator.close()
    except Exception as error:
        yield Finding(what, None, note=survived(error))
        return
    yield Finding(what, 1e6 * float(np.median(times)), "us a step")


def ways(sizes: Sizes) -> Iterator[Finding]:
    """States and bits of every way of launching, against one branch of launches that do not overlap.

    Chained launches read early what the launch before the last one wrote: that is where they could differ.
    """
    count, load = min(COMPARED, sizes.most), MemoryLoad(sizes)
    for name in SHIPPED[: 1 if sizes.dry else None]:
        expected: dict[int, Snapshot] = {}
        for branches, chained in ((1, False), (1, True), (2, True), (4, True)):
            what = f"sweep/same_bits/{name}/{branches}_branches/{'chained' if chained else 'unchained'}"
            options: dict[str, Any] = {"branches": branches, "branch_images": max(1, count // 4)}
            found = painted(model(name, sizes), count, load.start, chained=chained, **options)
            load.end()
            yield from compare(what, found, expected)


class MemoryLoad:
    """Copies on a stream of its own, so that kernels beside them do not begin and end in step with each other."""

    def __init__(self, sizes: Sizes) -> None:
        self.graph: torch.cuda.CUDAGraph | None = None
        if sizes.dry:
            return
        self.source = torch.empty(sizes.copied, device=sizes.device)
        self.target = torch.empty_like(self.source)
        self.stream, self.graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            for _ in range(COPIES):
                self.target.copy_(self.source)

    def start(self) -> None:
        """Copies for about a second from now on."""
        if self.graph is not None:
            with torch.cuda.stream(self.stream):
                for _ in range(LOADS):
                    self.graph.replay()

    def end(self) -> None:
        """Waits for the copies: their memory must not be given to others before."""
        if self.graph is not None:
            torch.cuda.synchronize()
