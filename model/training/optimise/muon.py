"""Muon (Jordan et al., 2024): steps of a matrix are its momentum, orthogonalised. Rates are scaled
to match AdamW's.

As torch.optim.Muon with adjust_lr_fn="match_rms_adamw" (torch 2.9), which orthogonalises in
bfloat16 only: on a processor without it, that takes longer than everything else in an update.
"""

from collections.abc import Iterable
from math import sqrt
from typing import Any

import torch

MOMENTUM = 0.95
ITERATIONS = 5
# of x, x^3 and x^5: they move singular values to about 1 in few iterations
COEFFICIENTS = 3.4445, -4.7750, 2.0315
MIN_NORM = 1e-7


class Muon(torch.optim.Optimizer):
    """For matrices only. dtype: of the orthogonalisation's products; weights and momentum keep
    their own."""

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
                    raise ValueError(
                        f"Muon moves matrices, not a tensor of shape {list(parameter.shape)}"
                    )

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient, in place. Matrices of one shape are
        orthogonalised as one stack: on a GPU, launches of one matrix each would take longer than
        the arithmetic."""
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            for parameter in moved:
                if not self.state[parameter]:
                    self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
            by_shape: dict[torch.Size, list[Any]] = {}
            for parameter in moved:
                by_shape.setdefault(parameter.shape, []).append(parameter)
            for shape, weights in by_shape.items():
                gradients = [weight.grad for weight in weights]
                momenta = [self.state[weight]["momentum_buffer"] for weight in weights]
                torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
                nesterov = torch.stack(torch._foreach_lerp(gradients, momenta, MOMENTUM))
                directions = orthogonalised(nesterov, self.dtype).to(nesterov.dtype)
                steps = directions * (group["lr"] * 0.2 * sqrt(max(shape)))
                torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_sub_(weights, steps.unbind())


def orthogonalised(matrices: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return matrices [K, A, B] of `dtype` with the singular vectors of `matrices` [K, A, B] and
    singular values near 1, by Newton-Schulz iterations X <- a X + (b X X^T + c (X X^T)^2) X."""
    a, b, c = COEFFICIENTS
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.to(dtype)
    x = x.mT if tall else x  # the smaller square
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=MIN_NORM)
    for _ in range(ITERATIONS):
        square = x @ x.mT
        polynomial = torch.baddbmm(square, square, square, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x.mT.contiguous() if tall else x
