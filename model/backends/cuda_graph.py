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
            streams = [stream, *(torch.cuda.Stream(device) for _ in branches[1:])]
            for beside in streams[1:]:
                beside.wait_stream(stream)
            for each, branch in zip(streams, branches, strict=True):
                with torch.cuda.stream(each):
                    branch()
            for beside in streams[1:]:
                stream.wait_stream(beside)
        except Exception:
            # that the recording was not valid, for the reason that is raised
            with suppress(RuntimeError):
                graph.capture_end()
            raise
        graph.capture_end()
    return graph.replay
