"""Training: from the published images to a model directory, with checkpoints that resume bit for bit."""

from scanline.model.training.config import TrainingConfig
from scanline.model.training.loop import train
from scanline.model.training.state import ResumeError

__all__ = ["ResumeError", "TrainingConfig", "train"]
