"""Which weights an optimiser moves, and how fast beside the others."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from scanline.model.training.config import TrainingConfig

HEAD_SCALE = 0.1  # of what is not a matrix of the layers
BESIDE_MUON = 0.4  # of the rate of the matrices


class Together:
    """Optimisers that each move a part of the weights, used as one."""

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
        """Takes back what `state_dict` gave."""
        for number, part in enumerate(self.parts):
            part.load_state_dict(state[str(number)])


def optimiser(model: nn.Module, config: TrainingConfig) -> torch.optim.Optimizer | Together:
    """The recipe's optimiser; each group's `scale` multiplies the rate of the schedule.

    Weight decay is decoupled, and on the matrices of the layers alone: none on embeddings, norms, biases, head.
    Muon orthogonalises the momentum of those matrices (Jordan et al., 2024), and AdamW moves the rest. The head
    learns at a tenth of the rate: one step moves a mean by rate x sum |x|, which at the full rate is many bytes, and
    the loss jumps.
    """
    named = list(model.named_parameters())
    head = [p for name, p in named if name.startswith("head.")]
    matrices = [p for name, p in named if p.dim() == 2 and name.startswith("layers.")]
    others = [
        p for name, p in named if not name.startswith("head.") and not (p.dim() == 2 and name.startswith("layers."))
    ]
    decayed = {"params": matrices, "weight_decay": config.weight_decay, "scale": 1.0}
    kept: list[dict[str, Any]] = [
        {"params": others, "weight_decay": 0.0, "scale": 1.0},
        {"params": head, "weight_decay": 0.0, "scale": HEAD_SCALE},
    ]
    rate, betas = config.learning_rate, (0.9, config.second_moment)
    if config.optimiser == "radam":
        return torch.optim.RAdam([decayed, *kept], lr=rate, betas=betas, decoupled_weight_decay=True)
    if config.optimiser == "adamw":
        return torch.optim.AdamW([decayed, *kept], lr=rate, betas=betas, fused=True)
    if not hasattr(torch.optim, "Muon"):
        raise ValueError(f"the optimiser muon needs torch 2.9 or newer, and this is torch {torch.__version__}")
    muon = torch.optim.Muon([decayed], lr=rate, adjust_lr_fn="match_rms_adamw")
    for group in kept:
        group["scale"] *= BESIDE_MUON
    return Together(muon, torch.optim.AdamW(kept, lr=rate, betas=betas, fused=True))


def clip_gradients(model: nn.Module, most: float) -> torch.Tensor:
    """Clips the head's norm and that of all else, each to `most`; returns the norm of both together, before.

    Apart, because nearly all of the norm is the head's, in jumps that would silence the layers.
    """
    head = [p for name, p in model.named_parameters() if name.startswith("head.")]
    rest = [p for name, p in model.named_parameters() if not name.startswith("head.")]
    norms = [torch.nn.utils.clip_grad_norm_(part, most) for part in (head, rest)]
    return torch.stack(norms).norm()
