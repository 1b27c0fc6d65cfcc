"""Unrecoverable exceptions: after them the engine's memory or device is not to be trusted.

The engine exits, and its requests are replayed by the next one, as after any crash. A GPU without
room for a request is not among them: torch refuses the allocation before anything has changed, so
that request fails and all others go on.

torch has a class for errors that it finds itself. Triton and cuBLAS report a failed
device as a RuntimeError among others, so the device is asked: of one that has failed
nothing can be waited for any more.
"""

from collections.abc import Callable

import torch

CPU_ALLOCATOR = "DefaultCPUAllocator"  # torch has no exception class for a CPU out of memory


def synchronize() -> None:
    """Wait for the GPU, where this process uses one; an exception where that has failed."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def unrecoverable(
    error: BaseException, synchronize: Callable[[], None] = synchronize
) -> str | None:
    """Return what happened, where an engine must not go on after `error`; None where it may.
    synchronize: waits for the device, which raises an exception where that has failed."""
    if isinstance(error, MemoryError) or CPU_ALLOCATOR in str(error):
        return "out of memory"
    if isinstance(error, torch.AcceleratorError):
        return "the device failed"
    try:
        synchronize()
    except Exception:
        return "the device failed"
    return None
