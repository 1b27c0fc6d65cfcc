"""One step of the recurrence (eq. 18-20), for images that are each at their own position. `reference.py` is the literal
loop, `eager.py` the same function in torch operations over the batch; `fused_triton.py` does more in one launch, with a
name and a signature of its own, and `sequence_triton.py` is many of its steps in one launch, for known bytes."""

from scanline.kernels.step.eager import recurrent_step

__all__ = ["recurrent_step"]
