"""Input of a step of a whole pixel: painted pixels around it as real numbers. `reference.py`
defines the inputs, `triton.py` gathers them on a GPU."""

from scanline.kernels.window.reference import Window, wave_table

__all__ = ["Window", "wave_table"]
