"""The output distribution over the 256 values of a byte. `reference.py` defines it; `triton.py`
samples on a GPU."""

from scanline.kernels.categorical.reference import Categorical

__all__ = ["Categorical"]
