"""Launches that are recorded once as a CUDA graph and replayed."""

from collections.abc import Callable
from contextlib import suppress

import torch

Replay = Callable[[], None]


def recorded(device: torch.device, *branches: Replay) -> Replay:
    """Return the replay of a graph of the launches of each branch, whose kernels are
    compiled and which allocate nothing and read no number on the host that may change.
    Branches have a stream each, so nothing that one writes may be read by another. Without a
    GPU, the launches are made one by one."""

    def one_by_one() -> None:
        for branch in branches:
            branch()

    if device.type != "cuda":
        return one_by_one
    # Not by torch.cuda.graph, which waits for the device and empties the allocator's
    # cache: images may be painted meanwhile.
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            others = [torch.cuda.Stream(device) for _ in branches[1:]]
            for other in others:
                other.wait_stream(stream)
            for branch_stream, branch in zip([stream, *others], branches, strict=True):
                with torch.cuda.stream(branch_stream):
                    branch()
            for other in others:
                stream.wait_stream(other)
        except Exception:
            # that the recording was not valid, for the reason that is raised
            with suppress(RuntimeError):
                graph.capture_end()
            raise
        graph.capture_end()
    return graph.replay
