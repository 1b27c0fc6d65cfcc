"""Training: from pictures to a model directory, with checkpoints that resume bit for bit.

Importing this package or its presets imports no torch, so that the command line can list them in
its help.
"""

from scanline.model.training.config import TrainingConfig

__all__ = ["TrainingConfig"]
