"""Unrecoverable exceptions: after them the engine's memory or device is not to be trusted.

The engine exits, and its requests are replayed by the next one, as after any crash. A GPU without room for a request is
not among them: torch refuses the allocation before anything has changed, so that request fails and all others go on.
"""

import torch

CPU_ALLOCATOR = "DefaultCPUAllocator"  # torch has no exception class for a CPU out of memory


def unrecoverable(error: BaseException) -> str | None:
    """Return what happened, where an engine must not go on after `error`; None where it may."""
    if isinstance(error, torch.OutOfMemoryError):  # a GPU's
        return None
    if isinstance(error, MemoryError) or CPU_ALLOCATOR in str(error):
        return "out of memory"
    return "the device failed" if isinstance(error, torch.AcceleratorError) else None
