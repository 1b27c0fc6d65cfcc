"""Mixture of discretised logistics over the bytes of a step, one byte or a whole pixel.
`reference.py` defines log-probability and sampling; `triton.py` samples on a GPU, `../cpu/` on a
CPU."""

from scanline.kernels.pixel_logistics.reference import PixelLogistics

__all__ = ["PixelLogistics"]
