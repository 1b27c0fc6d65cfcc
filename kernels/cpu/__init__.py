"""A CPU's own step: from the bytes in to the bytes out in one call, written in C++ behind a plain C interface.

step.h is that interface; network.h one step of all layers; matmul.h the products; way.cpp seats, tiles and teams.
It is compiled at install, once for each instruction set, and the best one is picked when it runs. Where there was
no compiler, `available()` is false and torch does the work.
"""

from scanline.kernels.cpu.bindings import INT8_INSTRUCTION_SETS, Network, available, instruction_sets

__all__ = ["INT8_INSTRUCTION_SETS", "Network", "available", "instruction_sets"]
