"""One step of the recurrence (eq. 18-20), for images that each stand at their own position.
`reference.py` is the law, `eager.py` the working way; one signature."""

from scanline.kernels.step.eager import recurrent_step

__all__ = ["recurrent_step"]
