"""The CPU kernel: from the bytes in to the bytes out in one call, written in C++ behind a plain C interface.

abi.h is that interface, layers.h one step of the network, matmul.h the products, runner.cpp slots, tiles and threads.
It is compiled at install, once for each instruction set, and the best one is picked when it runs. Where there was
no compiler, `available()` is false and torch does the work.
"""

from scanline.kernels.cpu.bindings import (
    ABI,
    PREDICTS,
    READS,
    Network,
    Shape,
    available,
    instruction_sets,
    unavailable_reason,
)

__all__ = ["ABI", "PREDICTS", "READS", "Network", "Shape", "available", "instruction_sets", "unavailable_reason"]
