"""An attention's results and gradients."""

import torch


def with_gradients(attention, inputs, given, weights) -> list[torch.Tensor]:
    """Return y, s, z and the gradients of sum(y * weights) with respect to phi(q), phi(k) and v, in one vector: a query
    alone with its key has the gradient zero, so that there is no size but the others' to measure its rounding by."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    y, s, z = attention(*leaves, *given)
    return [y, s, z, torch.cat([x.flatten() for x in torch.autograd.grad((y * weights).sum(), leaves)])]
