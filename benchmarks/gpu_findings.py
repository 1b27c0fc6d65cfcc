"""What a GPU measurement found, one line each, and the clock behind it."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

LAUNCHES, REPLAYS = 10, 9  # in a recorded graph, and of it: the time of a launch is no Python's


@dataclass(frozen=True)
class Finding:
    """A number with its unit; `share` is what it is of the ceiling that `note` names."""

    what: str
    value: float
    unit: str
    share: float | None = None
    note: str = ""


def microseconds(call: Callable[[], object], launches: int = LAUNCHES) -> float:
    """Median time of one call; on a GPU of calls recorded one after the other, so that the host is out of the way."""
    call()
    if not torch.cuda.is_available():
        start = time.perf_counter()
        call()
        return 1e6 * (time.perf_counter() - start)
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
    """Wall-clock time of one call, the GPU's work included."""
    start = time.perf_counter()
    call()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start
