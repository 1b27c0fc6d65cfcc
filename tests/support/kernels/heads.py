"""Random queries, keys and values as a layer makes them; and what an attention makes of them."""

import torch

from scanline.kernels.feature_maps import elu_plus_one

SIZES = [1, 63, 64, 65, 130]  # around one and two chunks of 64


def sequence(
    length: int,
    key_width: int = 8,
    value_width: int = 5,
    dtype: torch.dtype = torch.float32,
    batch: int = 2,
) -> tuple[torch.Tensor, ...]:
    """phi(q), phi(k) [B, 3, N, C] and v [B, 3, N, M]."""
    q, k = (elu_plus_one(torch.randn(batch, 3, length, key_width, dtype=dtype)) for _ in range(2))
    return q, k, torch.randn(batch, 3, length, value_width, dtype=dtype)


def state(
    key_width: int = 8, value_width: int = 5, dtype: torch.dtype = torch.float32, batch: int = 2
):
    """s [B, 3, C, M] and z [B, 3, C] as a few positions leave them."""
    _, k, v = sequence(4, key_width, value_width, dtype, batch)
    return k.mT @ v, k.sum(dim=2)


def with_gradients(attention, inputs, given, weights) -> list[torch.Tensor]:
    """Return y, s, z and the gradients of sum(y * weights) with respect to phi(q), phi(k) and v, in
    one vector: a query alone with its key has the gradient zero, so that there is no size but the
    others' to measure its rounding by."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    y, s, z = attention(*leaves, *given)
    return [
        y,
        s,
        z,
        torch.cat([x.flatten() for x in torch.autograd.grad((y * weights).sum(), leaves)]),
    ]
