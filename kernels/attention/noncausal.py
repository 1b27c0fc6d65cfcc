"""Linear attention without a causal mask (eq. 4-6): every query attends to all keys.

The brackets of eq. 6: phi(K)^T V is computed first, for all queries at once, so time and memory are
O(N) and no [N, N] tensor exists. Plain torch with its autograd is all it needs, on any device: two
products. The reference is `reference.linear_attention`.
"""

import torch
from torch import Tensor

from scanline.kernels.attention.reference import EPSILON


def linear_attention(
    phi_q: Tensor,  # [B, H, N, C]
    phi_k: Tensor,  # [B, H, S, C]
    v: Tensor,  # [B, H, S, M]
) -> Tensor:
    """Return y [B, H, N, M], its sums in float32 or wider, in the values' dtype; ValueError where
    shapes do not fit."""
    batch, heads, _, key_width = phi_q.shape
    keys = phi_k.shape[2]
    if phi_k.shape != (batch, heads, keys, key_width) or v.shape[:3] != (batch, heads, keys):
        shapes = f"queries {list(phi_q.shape)}, keys {list(phi_k.shape)} and values {list(v.shape)}"
        raise ValueError(f"{shapes} do not fit")
    sum_dtype = torch.promote_types(phi_q.dtype, torch.float32)
    s = phi_k.mT @ v  # [B, H, C, M]
    z = phi_k.sum(dim=2, dtype=sum_dtype)  # [B, H, C]
    numerator = phi_q @ s.to(phi_q.dtype)
    normaliser = phi_q.to(sum_dtype) @ z.unsqueeze(-1)
    y = numerator.to(sum_dtype) / (normaliser + EPSILON)
    return y.to(v.dtype)
