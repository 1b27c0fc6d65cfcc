"""Recurrent step in torch operations over the whole batch, on any device."""

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
    """Update s and z IN PLACE and return y [B, H, M], as `reference.recurrent_step`."""
    s.addcmul_(phi_k.unsqueeze(-1), v.unsqueeze(-2))  # eq. 18: += phi(k) v^T
    z.add_(phi_k)  # eq. 19
    # eq. 20: what the query reads of the state
    numerator = torch.matmul(phi_q.unsqueeze(-2), s).squeeze(-2)
    normaliser = (phi_q * z).sum(dim=-1, keepdim=True)
    return numerator / (normaliser + EPSILON)
