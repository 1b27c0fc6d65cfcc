"""Muon (Jordan et al., 2024): steps of a matrix are its momentum, orthogonalised. Rates are scaled to match AdamW's.

As torch.optim.Muon with adjust_lr_fn="match_rms_adamw" (torch 2.9), which orthogonalises in bfloat16 only: on a
processor without it, that takes longer than everything else in an update.
"""

from collections.abc import Iterable
from math import sqrt
from typing import Any

import torch

MOMENTUM = 0.95
ITERATIONS = 5
COEFFICIENTS = 3.4445, -4.7750, 2.0315  # of x, x^3 and x^5: they move singular values to about 1 in few iterations
LEAST_NORM = 1e-7


class Muon(torch.optim.Optimizer):
    """For matrices only. dtype: of the orthogonalisation's products; weights and momentum keep their own."""

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter] | Iterable[dict[str, Any]],
        lr: float,
        weight_decay: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay})
        self.dtype = dtype
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dim() != 2:
                    raise ValueError(f"Muon moves matrices, not a tensor of shape {list(parameter.shape)}")

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient, in place."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                momentum = state["momentum_buffer"].lerp_(parameter.grad, 1 - MOMENTUM)
                direction = orthogonalised(parameter.grad.lerp(momentum, MOMENTUM), self.dtype)  # Nesterov's
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.sub_(direction * (group["lr"] * 0.2 * sqrt(max(parameter.shape))))  # a tensor has no alpha


def orthogonalised(matrix: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a matrix [A, B] of `dtype` with the singular vectors of `matrix` [A, B] and singular values near 1, by
    Newton-Schulz iterations X <- a X + (b X X^T + c (X X^T)^2) X."""
    a, b, c = COEFFICIENTS
    x = matrix.to(dtype)
    x = x.T if x.shape[0] > x.shape[1] else x  # the smaller square
    x = x / x.norm().clamp(min=LEAST_NORM)
    for _ in range(ITERATIONS):
        square = x @ x.T
        x = torch.addmm(x, torch.addmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.T if matrix.shape[0] > matrix.shape[1] else x
