"""The output distribution: a mixture of discretised logistics over a byte. `reference.py` defines log-probability, cost
in bits and sampling, `anchors.py` means that are offsets from painted bytes; `triton.py` samples on a GPU,
`../cpu/mixture.h` on a CPU.
"""

from scanline.kernels.mixture.reference import bits, log_prob, sample

__all__ = ["bits", "log_prob", "sample"]
