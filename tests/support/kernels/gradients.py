"""Gradients of an attention in one vector."""

import torch


def gradients(attention, inputs, given, weights) -> torch.Tensor:
    """Of sum(y * weights) with respect to phi(q), phi(k) and v, in one vector: a query alone with its key
    has the gradient zero, so that there is no size but the others' to measure its rounding by."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    y, _, _ = attention(*leaves, *given)
    return torch.cat([x.flatten() for x in torch.autograd.grad((y * weights).sum(), leaves)])
