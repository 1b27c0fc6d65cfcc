"""Random queries, keys and values as a layer makes them; and what an attention makes of them."""

from collections.abc import Callable

import torch

from scanline.kernels.feature_maps import elu_plus_one
from tests.support.kernels.device import there


def sequence(
    length: int,
    key_width: int = 8,
    value_width: int = 5,
    dtype: torch.dtype = torch.float32,
    batch: int = 2,
) -> tuple[torch.Tensor, ...]:
    """phi(q), phi(k) [B, 3, N, C] and v [B, 3, N, M]."""
    q = torch.randn(batch, 3, length, key_width, dtype=dtype)
    k = torch.randn(batch, 3, length, key_width, dtype=dtype)
    v = torch.randn(batch, 3, length, value_width, dtype=dtype)
    return there(elu_plus_one(q), elu_plus_one(k), v)


def state(key_width: int = 8, value_width: int = 5, batch: int = 2) -> tuple[torch.Tensor, ...]:
    """s [B, 3, C, M] and z [B, 3, C] as a few positions leave them."""
    _, k, v = sequence(4, key_width, value_width, batch=batch)
    return k.mT @ v, k.sum(dim=2)


Results = dict[str, torch.Tensor]


def with_gradients(
    attention: Callable[..., tuple[torch.Tensor, ...]],
    inputs: tuple[torch.Tensor, ...],
    rest: tuple[torch.Tensor, ...],
    weights: torch.Tensor,
) -> Results:
    """Return y, s, z and the gradients of sum(y * weights) with respect to phi(q), phi(k) and v, in
    one vector: a query alone with its key has the gradient zero, so that there is no size but the
    others' to measure its rounding by."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    y, s, z = attention(*leaves, *rest)
    gradients = torch.autograd.grad((y * weights).sum(), leaves)
    return {"y": y, "s": s, "z": z, "gradients": torch.cat([x.flatten() for x in gradients])}
