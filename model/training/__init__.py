"""Training: from the published images to a model directory, with checkpoints that resume bit for bit."""

from model.training.config import TrainingConfig
from model.training.loop import train
from model.training.state import ResumeError

__all__ = ["ResumeError", "TrainingConfig", "train"]
