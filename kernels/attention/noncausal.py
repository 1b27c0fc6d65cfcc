"""Linear attention without a causal mask (eq. 4-6): every query attends to all keys of its sequence.

One state (s, z) is the sum over all keys, so time and memory are O(N) and no [N, N] tensor exists. Sequences of a batch
may have different lengths: a mask leaves out their padding. Plain torch with its autograd is all it needs, on any
device: two products. The reference is `reference.linear_attention`.
"""

import torch

from scanline.kernels.attention.reference import EPSILON


def linear_attention(
    phi_q: torch.Tensor,  # [B, H, N, C]
    phi_k: torch.Tensor,  # [B, H, S, C]
    v: torch.Tensor,  # [B, H, S, M]
    mask: torch.Tensor | None = None,  # [B, S] bool, true for keys; false for padding, which is not read
) -> torch.Tensor:
    """Return y [B, H, N, M], with sums in float32 or wider, in the values' dtype.

    The output of a query of the padding has no meaning, and that of a sequence without keys is 0. The arguments are
    not changed. ValueError where their shapes do not fit.
    """
    batch, heads, _, width = phi_q.shape
    fits = phi_k.shape[:2] == (batch, heads) and phi_k.shape[3] == width and phi_k.shape[:3] == v.shape[:3]
    if not fits or (mask is not None and mask.shape != (batch, phi_k.shape[2])):
        shapes = f"queries {list(phi_q.shape)}, keys {list(phi_k.shape)} and values {list(v.shape)}"
        raise ValueError(shapes + (f" and mask {list(mask.shape)}" if mask is not None else "") + " do not fit")
    if mask is not None:
        padding = ~mask[:, None, :, None]
        phi_k, v = phi_k.masked_fill(padding, 0), v.masked_fill(padding, 0)  # values too: 0 x NaN is NaN
    wide = torch.promote_types(phi_q.dtype, torch.float32)
    s = (phi_k.mT @ v).to(phi_q.dtype)  # [B, H, C, M]
    z = phi_k.sum(dim=2, dtype=wide)  # [B, H, C]
    normaliser = (phi_q.to(wide) @ z.unsqueeze(-1)) + EPSILON
    return ((phi_q @ s).to(wide) / normaliser).to(v.dtype)
