"""The optimiser and its learning rate over a run."""

from math import cos, pi

import torch
from torch import nn

from model.training.config import TrainingConfig


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


def optimiser(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer:
    """AdamW or RAdam with decoupled weight decay on the matrices of the layers; none on embeddings, norms, biases."""
    decayed = [p for name, p in model.named_parameters() if p.dim() == 2 and "embedding" not in name]
    kept = [p for name, p in model.named_parameters() if p.dim() < 2 or "embedding" in name]
    groups = [{"params": decayed, "weight_decay": config.weight_decay}, {"params": kept, "weight_decay": 0.0}]
    betas = (0.9, config.second_moment)
    if config.optimiser == "radam":
        return torch.optim.RAdam(groups, lr=config.learning_rate, betas=betas, decoupled_weight_decay=True)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, fused=True)
