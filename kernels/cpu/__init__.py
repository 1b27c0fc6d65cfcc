"""The CPU kernel: whole steps, from bytes to bytes, in one call, in C++
behind a plain C interface (README.md).

It is compiled at install, once for each instruction set, and the best one is picked when it runs.
Without a compiler at install, `available()` is false and torch does the work.
"""

from scanline.kernels.cpu.bindings import (
    ABI,
    ARITHMETIC,
    CheckedSlots,
    Network,
    Passes,
    available,
    instruction_sets,
    unavailable_reason,
)
from scanline.kernels.cpu.shape import PREDICTS, READS, Shape

__all__ = [
    "ABI",
    "ARITHMETIC",
    "PREDICTS",
    "READS",
    "CheckedSlots",
    "Network",
    "Passes",
    "Shape",
    "available",
    "instruction_sets",
    "unavailable_reason",
]
