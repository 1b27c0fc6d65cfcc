"""The reference of causal linear attention: Algorithm 1 of the paper, a literal loop over time. Never optimised.

Autograd through it is the reference of gradients.
"""

import torch

EPSILON = 1e-6  # added to the normaliser, as the authors' published code does


def causal_linear_attention(
    phi_q: torch.Tensor,  # [B, H, N, C]
    phi_k: torch.Tensor,  # [B, H, N, C]
    v: torch.Tensor,  # [B, H, N, M]
    s: torch.Tensor | None = None,  # [B, H, C, M]
    z: torch.Tensor | None = None,  # [B, H, C]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """y_i = phi(q_i)^T s_i / (phi(q_i)^T z_i + 1e-6) for every i, s and z being the running sums of
    phi(k_j) v_j^T and phi(k_j) over j <= i (eq. 10-12), from the given state or from zero.

    Returns y [B, H, N, M] and the state after the last position, s [B, H, C, M] and z [B, H, C]. The
    arguments are not changed.
    """
    batch, heads, length, key_width = phi_q.shape
    s = phi_q.new_zeros(batch, heads, key_width, v.shape[-1]) if s is None else s
    z = phi_q.new_zeros(batch, heads, key_width) if z is None else z
    outputs = []
    for i in range(length):
        s = s + phi_k[:, :, i, :, None] * v[:, :, i, None, :]
        z = z + phi_k[:, :, i]
        numerator = (phi_q[:, :, i, :, None] * s).sum(dim=2)
        normaliser = (phi_q[:, :, i] * z).sum(dim=2)
        outputs.append(numerator / (normaliser + EPSILON)[..., None])
    return torch.stack(outputs, dim=2), s, z
