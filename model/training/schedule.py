"""The learning rate over a run."""

from math import cos, pi

from scanline.model.training.config import TrainingConfig


def learning_rate(config: TrainingConfig, update: int) -> float:
    """The rate of an update: a linear warm-up, then the schedule, which ends at zero unless constant."""
    if update < config.warm_up:
        return config.learning_rate * (update + 1) / config.warm_up
    if config.schedule == "constant":
        return config.learning_rate
    left = (config.updates - update) / max(1, config.updates - config.warm_up)
    if config.schedule == "cosine":
        return config.learning_rate * (1 - cos(pi * left)) / 2
    return config.learning_rate * min(1.0, left / config.decay)
