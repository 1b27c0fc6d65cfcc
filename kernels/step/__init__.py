"""One step of the recurrence (eq. 18-20), each image at its own position.

`reference.py` is the literal loop, `eager.py` the same function in torch operations over
the batch. `fused_triton.py` also splits the projection and applies the feature map in
the same launch, and so has a signature of its own; `sequence_triton.py` is many of its
steps in one launch, for known bytes.
"""

from scanline.kernels.step.eager import recurrent_step

__all__ = ["recurrent_step"]
