"""The output distribution over the bytes of a whole pixel. `reference.py` defines it; `triton.py` samples on a GPU."""

from scanline.kernels.pixel_logistics.reference import PixelLogistics

__all__ = ["PixelLogistics"]
