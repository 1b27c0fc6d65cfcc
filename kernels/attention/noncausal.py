"""Linear attention without a causal mask (eq. 4-6): every query attends to all keys of its sequence.

One state (s, z) is the sum over all keys, so time and memory are O(N) and no [N, N] tensor exists. Plain torch with its
autograd is all it needs, on any device: two products. The reference is `reference.linear_attention`.
"""

import torch

from scanline.kernels.attention.reference import EPSILON


def linear_attention(
    phi_q: torch.Tensor,  # [B, H, N, C]
    phi_k: torch.Tensor,  # [B, H, S, C]
    v: torch.Tensor,  # [B, H, S, M]
) -> torch.Tensor:
    """Return y [B, H, N, M], its sums in float32 or wider, in the values' dtype; ValueError where shapes do not fit."""
    if (*phi_q.shape[:2], phi_q.shape[3]) != (*phi_k.shape[:2], phi_k.shape[3]) or phi_k.shape[:3] != v.shape[:3]:
        shapes = f"queries {list(phi_q.shape)}, keys {list(phi_k.shape)} and values {list(v.shape)}"
        raise ValueError(f"{shapes} do not fit")
    wide = torch.promote_types(phi_q.dtype, torch.float32)
    s = (phi_k.mT @ v).to(phi_q.dtype)  # [B, H, C, M]
    z = phi_k.sum(dim=2, dtype=wide)  # [B, H, C]
    normaliser = (phi_q.to(wide) @ z.unsqueeze(-1)) + EPSILON
    return ((phi_q @ s).to(wide) / normaliser).to(v.dtype)
