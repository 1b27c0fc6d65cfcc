"""Launches that are recorded once as a CUDA graph and replayed."""

from collections.abc import Callable
from contextlib import suppress

import torch

Replay = Callable[[], None]


def recorded(launches: Replay, device: torch.device) -> Replay:
    """Return the replay of a graph of `launches`, whose kernels are compiled and which allocate nothing and read no
    number on the host that may change; without a GPU, the launches themselves, one by one."""
    if device.type != "cuda":
        return launches
    # Not by torch.cuda.graph, which waits for the device and empties the allocator's cache: images may be painted
    # meanwhile.
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream(device)):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            launches()
        except Exception:
            with suppress(RuntimeError):  # that the recording was not valid, for the reason that is raised
                graph.capture_end()
            raise
        graph.capture_end()
    return graph.replay
