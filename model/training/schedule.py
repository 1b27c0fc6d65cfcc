"""The optimiser and its learning rate over a run."""

from math import cos, pi

import torch
from torch import nn

from model.training.config import TrainingConfig

HEAD_SCALE = 0.1


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
    """AdamW or RAdam with decoupled weight decay on the matrices of the layers; none on embeddings, norms, biases.

    The head learns at a tenth of the rate: one step moves a mean by rate x sum |x|, which at the full rate is
    many bytes, and the loss jumps. Each group's `scale` multiplies the rate of the schedule.
    """
    head = [p for name, p in model.named_parameters() if name.startswith("head.")]
    layers = [p for name, p in model.named_parameters() if not name.startswith("head.")]
    matrices = {p for name, p in model.named_parameters() if p.dim() == 2 and "embedding" not in name}
    decayed, kept = [p for p in layers if p in matrices], [p for p in layers if p not in matrices]
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay, "scale": 1.0},
        {"params": kept, "weight_decay": 0.0, "scale": 1.0},
        {"params": head, "weight_decay": 0.0, "scale": HEAD_SCALE},
    ]
    betas = (0.9, config.second_moment)
    if config.optimiser == "radam":
        return torch.optim.RAdam(groups, lr=config.learning_rate, betas=betas, decoupled_weight_decay=True)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, fused=True)
