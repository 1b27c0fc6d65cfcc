"""One line of a GPU measurement, and the clocks behind it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

LAUNCHES, REPLAYS = 10, 9  # calls in a recorded graph, and replays of it; Python's launch time is not measured


@dataclass(frozen=True)
class Finding:
    """A number with its unit; `share` is relative to the ceiling that `note` names."""

    what: str
    value: float
    unit: str
    share: float | None = None
    note: str = ""

    @property
    def percent(self) -> str:
        return "" if self.share is None else f"{self.share:.1%}"


def microseconds(call: Callable[[], object], launches: int = LAUNCHES) -> float:
    """Median time of one call; on a GPU, of calls recorded in a graph, so that the host's time is not counted."""
    call()
    if not torch.cuda.is_available():
        return 1e6 * seconds(call)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            call()
    graph.replay()
    times = []
    for _ in range(REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / launches)
    return sorted(times)[len(times) // 2]


def seconds(call: Callable[[], object]) -> float:
    """Wall-clock time of one call, including the GPU's work."""
    start = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start
