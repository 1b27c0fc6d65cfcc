"""The output distribution over the bytes of a whole pixel. `reference.py` defines it."""

from scanline.kernels.pixel_logistics.reference import PixelLogistics

__all__ = ["PixelLogistics"]
