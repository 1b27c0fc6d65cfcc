"""Bits of images by every way of launching, while other copies run beside them."""

from collections.abc import Iterator

import torch

from benchmarks.gpu.correctness import Snapshot, compare, painted
from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import SHIPPED, Sizes, model

# of another stream, of about half a millisecond each, and how often they are repeated
COPIES = 100
LOADS = 20
COMPARED = 2048  # images whose bits are compared between two ways of launching


def launches(sizes: Sizes) -> Iterator[Finding]:
    """Compare states and bits of every way of launching, against launches that do not overlap.

    Chained launches read early what the launch before the last one wrote: that is where they could
    differ.
    """
    count = min(COMPARED, sizes.most)
    load = MemoryLoad(sizes)
    for name in sizes.models(*SHIPPED):
        expected: dict[int, Snapshot] = {}
        for chained, streams in ((False, 1), (True, 1), (True, 2)):
            kind = "chained" if chained else "unchained"
            what = f"launches/{name}/{streams}_streams/{kind}"
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
