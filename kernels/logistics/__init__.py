"""The output distribution of the paper: a mixture of discretised logistics over a byte. `reference.py` defines
log-probability, cost in bits and sampling; `triton.py` samples on a GPU, `../cpu/` on a CPU.
"""

from scanline.kernels.logistics.reference import Logistics

__all__ = ["Logistics"]
