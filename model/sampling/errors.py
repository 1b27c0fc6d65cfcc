"""Exceptions that an engine must not outlive: after them its memory or its device is not to be trusted.

The engine ends itself, and what it had in work is replayed by the next one, as after any death.
"""

import torch

CPU_ALLOCATOR = "DefaultCPUAllocator"  # torch has no class for a CPU's memory that is used up


def fatal(error: BaseException) -> str | None:
    """What happened, where an engine must not go on after it."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or CPU_ALLOCATOR in str(error):
        return "out of memory"
    return "the device failed" if isinstance(error, torch.AcceleratorError) else None
