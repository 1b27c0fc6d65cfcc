"""Optimisers of the weights, learning rates, gradient clipping, and the moving average."""

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from scanline.model.network.transformer import Transformer
from scanline.model.training.config import TrainingConfig
from scanline.model.training.optimise.muon import Muon

# rates of the head and of all that is no matrix, as shares of the rate of the matrices
HEAD_SCALE = 0.1
OTHERS_SCALE = 1.0
HEAD_SCALE_WITH_MUON = 0.2
OTHERS_SCALE_WITH_MUON = 0.4
STACKS = ("blocks", "layers")  # parts of the network whose linear maps are the matrices


class CombinedOptimiser:
    """Several optimisers, each for a part of the weights, with the interface of one."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts = parts

    @property
    def param_groups(self) -> Sequence[dict[str, Any]]:
        return [group for part in self.parts for group in part.param_groups]

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        return {str(number): part.state_dict() for number, part in enumerate(self.parts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for number, part in enumerate(self.parts):
            part.load_state_dict(state[str(number)])


def optimiser(
    model: nn.Module,
    config: TrainingConfig,
    dtype: torch.dtype = torch.float32,
) -> torch.optim.Optimizer | CombinedOptimiser:
    """Return the recipe's optimiser; each group's `scale` multiplies the rate of the schedule.

    Weight decay is decoupled, and on the matrices of blocks and layers alone: none on embeddings,
    norms, biases, head. Muon moves those matrices, with products in `dtype`, and AdamW the rest.
    The head learns at a lower rate: one step moves a mean by rate x sum |x|, which at the full
    rate is many bytes, and the loss jumps.
    """
    matrices: list[torch.Tensor] = []
    for name, stack in model.named_children():
        if name in STACKS:
            for module in stack.modules():
                if isinstance(module, nn.Linear):
                    matrices.append(module.weight)
    head = _head(model)
    others = _without(model.parameters(), [*matrices, *head])
    of_matrices = {"params": matrices, "weight_decay": config.weight_decay, "scale": 1.0}
    of_others = {"params": others, "weight_decay": 0.0, "scale": OTHERS_SCALE}
    of_head = {"params": head, "weight_decay": 0.0, "scale": HEAD_SCALE}
    rate = config.learning_rate
    betas = (0.9, config.second_moment)
    if config.optimiser == "muon":
        of_others["scale"] = OTHERS_SCALE_WITH_MUON
        of_head["scale"] = HEAD_SCALE_WITH_MUON
        adamw = torch.optim.AdamW([of_others, of_head], lr=rate, betas=betas, fused=True)
        return CombinedOptimiser(Muon([of_matrices], lr=rate, dtype=dtype), adamw)
    groups = [of_matrices, of_others, of_head]
    return torch.optim.AdamW(groups, lr=rate, betas=betas, fused=True)


def _head(model: nn.Module) -> list[nn.Parameter]:
    return list(model.get_submodule("head").parameters())


def _without(
    parameters: Iterable[nn.Parameter], excluded: Iterable[torch.Tensor]
) -> list[nn.Parameter]:
    """Return the parameters that are none of those: objects, whatever their values."""
    ids = {id(parameter) for parameter in excluded}
    return [parameter for parameter in parameters if id(parameter) not in ids]


def learning_rate(config: TrainingConfig, update: int) -> float:
    """Return the rate of an update: a linear warm-up, then the schedule, which ends at zero unless
    it is constant."""
    if update < config.warm_up:
        return config.learning_rate * (update + 1) / config.warm_up
    left = (config.updates - update) / max(1, config.updates - config.warm_up)
    return config.learning_rate * falling(config, left)


def falling(config: TrainingConfig, left: float) -> float:
    """Return the share of the rate that the schedule has where so much of the run is left, from 1
    to 0."""
    if config.schedule == "constant":
        return 1.0
    return min(1.0, left / config.decay)


def clip_gradients(model: nn.Module, limit: float) -> torch.Tensor:
    """Clip the norm of the head's gradient and that of all other gradients, each to `limit`, in
    place, and return the norm of both together before.

    They are clipped apart because nearly all of the norm is the head's, in jumps that would silence
    the layers.
    """
    head = _head(model)
    rest = _without(model.parameters(), head)
    of_head = torch.nn.utils.clip_grad_norm_(head, limit)
    of_rest = torch.nn.utils.clip_grad_norm_(rest, limit)
    return torch.stack((of_head, of_rest)).norm()


class MovingAverage:
    """The exponential moving average of the weights: the model that is evaluated, sampled and
    shipped."""

    def __init__(self, model: Transformer, decay: float) -> None:
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay = decay

    def share(self, update: int) -> float:
        """Return the share of the weights after `update` in the average, which is larger in a run's
        first updates."""
        return 1 - min(self.decay, (1 + update) / (10 + update))

    @torch.no_grad()
    def move(self, model: Transformer, share: float | torch.Tensor) -> None:
        """Move towards the weights by a share of the way, in place."""
        averages: list[torch.Tensor] = [*self.model.parameters()]
        weights: list[torch.Tensor] = [*model.parameters()]
        if isinstance(share, float):
            torch._foreach_lerp_(averages, weights, share)
        else:  # which lerp would read from the device: no CUDA graph can
            steps = torch._foreach_sub(weights, averages)
            torch._foreach_mul_(steps, share)
            torch._foreach_add_(averages, steps)
