"""The exponential moving average of the weights: what is evaluated, sampled and shipped."""

import copy

import torch

from scanline.model.network.transformer import Transformer


class Average:
    """A second model that follows the first; its memory is short in a run's first updates."""

    def __init__(self, model: Transformer, decay: float) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def follow(self, model: Transformer, update: int) -> None:
        """Moves towards the weights after `update`, in place."""
        decay = min(self.decay, (1 + update) / (10 + update))
        averages: list[torch.Tensor] = list(self.model.parameters())
        weights: list[torch.Tensor] = list(model.parameters())
        torch._foreach_lerp_(averages, weights, 1 - decay)
