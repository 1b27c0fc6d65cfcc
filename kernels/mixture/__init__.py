"""The output distribution: a mixture of discretised logistics over a byte. `reference.py` is the law of log-probability
and sampling, `anchors.py` the law of means that are offsets from painted bytes; `triton.py` samples on a GPU,
`../cpu/mixture.h` on a CPU.
"""

from scanline.kernels.mixture.reference import log_prob, sample

__all__ = ["log_prob", "sample"]
