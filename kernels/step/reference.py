"""Reference of the recurrent step: eq. 18-20, image by image and head by head, never optimised."""

import torch
from torch import Tensor

from scanline.kernels.attention.reference import EPSILON


def recurrent_step(
    phi_q: Tensor,  # [B, H, C]
    phi_k: Tensor,  # [B, H, C]
    v: Tensor,  # [B, H, M]
    s: Tensor,  # [B, H, C, M], changed in place
    z: Tensor,  # [B, H, C], changed in place
) -> Tensor:
    """Add phi(k) v^T to s (eq. 18) and phi(k) to z (eq. 19), both IN PLACE, and return
    y = phi(q)^T s / (phi(q)^T z + 1e-6) [B, H, M], the attention's part of eq. 20."""
    batch, heads, _ = v.shape
    y = torch.empty_like(v)
    for b in range(batch):
        for h in range(heads):
            query = phi_q[b, h]
            key = phi_k[b, h]
            s[b, h] += torch.outer(key, v[b, h])  # eq. 18
            z[b, h] += key  # eq. 19
            numerator = query @ s[b, h]
            normaliser = query @ z[b, h]
            y[b, h] = numerator / (normaliser + EPSILON)
    return y
