"""Random queries, keys and values as a layer makes them; and what an attention makes of them."""

import torch

from scanline.kernels.feature_maps import elu_plus_one
from tests.support.kernels.device import there

WIDTHS = [(8, 5), (5, 8), (1, 1), (32, 32), (33, 17)]  # of keys and of values


def sequence(length, key_width=8, value_width=5, dtype=torch.float32, batch=2):
    """phi(q), phi(k) [B, 3, N, C] and v [B, 3, N, M]."""
    q = torch.randn(batch, 3, length, key_width, dtype=dtype)
    k = torch.randn(batch, 3, length, key_width, dtype=dtype)
    v = torch.randn(batch, 3, length, value_width, dtype=dtype)
    return there(elu_plus_one(q), elu_plus_one(k), v)


def state(key_width=8, value_width=5, batch=2):
    """s [B, 3, C, M] and z [B, 3, C] as a few positions leave them."""
    _, k, v = sequence(
        4,
        key_width,
        value_width,
        batch=batch,
    )
    return k.mT @ v, k.sum(dim=2)


def with_gradients(attention, inputs, rest, weights):
    """Return y, s, z and the gradients of sum(y * weights) with respect to phi(q), phi(k) and v, in
    one vector: a query alone with its key has the gradient zero, so that there is no size but the
    others' to measure its rounding by."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    y, s, z = attention(*leaves, *rest)
    gradients = torch.autograd.grad((y * weights).sum(), leaves)
    return {
        "y": y,
        "s": s,
        "z": z,
        "gradients": torch.cat([x.flatten() for x in gradients]),
    }
