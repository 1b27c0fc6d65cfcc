"""Causal linear attention in chunks, with its own backward (eq. 13-15).

A chunk attends to the positions before it through one state (s, z), and to its own positions
through a masked [chunk, chunk] product. phi(q), phi(k), v and the states before each chunk are kept
for the backward pass: with C and M up to CHUNK, training memory is O(N max(C, M)) per head, and no
[N, C, M] tensor exists. The derivation is in README.md, in this folder.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from scanline.kernels.attention.reference import EPSILON

# positions; per position the masked product costs CHUNK and a state C, equal for heads of 32 to 64
CHUNK = 64

Tensors = tuple[Tensor, ...]


def causal_linear_attention(
    phi_q: Tensor,  # [B, H, N, C]
    phi_k: Tensor,  # [B, H, N, C]
    v: Tensor,  # [B, H, N, M]
    s: Tensor | None = None,  # [B, H, C, M]
    z: Tensor | None = None,  # [B, H, C]
    weight: Tensor | None = None,  # [B, N]
) -> Tensors:
    """Return y [B, H, N, M] and the final state s, z (float32 or wider), as
    `reference.causal_linear_attention`.

    Gradients flow to phi_q, phi_k and v; the given state and the weights are constants
    and the returned state carries no gradient. The arguments are not changed.
    ValueError where their shapes do not fit.
    """
    check_shapes(phi_q, phi_k, v)
    batch, heads, length, key_width = phi_q.shape
    if weight is not None and weight.shape != (batch, length):
        raise ValueError(f"weights {list(weight.shape)} do not fit keys {list(phi_k.shape)}")
    sum_dtype = torch.promote_types(phi_q.dtype, torch.float32)
    if s is None:
        s = phi_q.new_zeros(batch, heads, key_width, v.shape[-1], dtype=sum_dtype)
    if z is None:
        z = phi_q.new_zeros(batch, heads, key_width, dtype=sum_dtype)
    if weight is None:
        numerator, normaliser, s, z = _Sums.apply(phi_q, phi_k, v, s, z, 0)
    else:
        # Sums of the weighted keys before a query, and its own key once.
        weighted_k = phi_k * weight[:, None, :, None].to(phi_k.dtype)
        numerator, normaliser, s, z = _Sums.apply(phi_q, weighted_k, v, s, z, -1)
        similarity = (phi_q * phi_k).sum(dim=-1, dtype=sum_dtype)
        numerator = numerator + similarity.unsqueeze(-1) * v
        normaliser = normaliser + similarity
    y = numerator / (normaliser + EPSILON).unsqueeze(-1)
    return y.to(v.dtype), s, z


def check_shapes(phi_q: Tensor, phi_k: Tensor, v: Tensor) -> None:
    """Raise ValueError where queries, keys and values do not fit each other."""
    if phi_k.shape != phi_q.shape or v.shape[:3] != phi_q.shape[:3]:
        raise ValueError(
            f"queries {list(phi_q.shape)}, keys {list(phi_k.shape)} and values {list(v.shape)} do not fit"
        )


def _chunks(x: Tensor) -> Tensor:
    """Return [B, H, N, D] as [B, H, n, CHUNK, D], the end padded with zeros (a zero key adds
    nothing to a state)."""
    batch, heads, length, width = x.shape
    padding = -length % CHUNK
    if padding:
        x = F.pad(x, (0, 0, 0, padding))
    return x.reshape(batch, heads, (length + padding) // CHUNK, CHUNK, width)


def _positions(chunks: Tensor, length: int) -> Tensor:
    """Return [B, H, n, CHUNK, ...] as [B, H, N, ...], without the padding."""
    return chunks.flatten(2, 3)[:, :, :length]


def _before(sums: Tensor, first: Tensor) -> Tensors:
    """Return the running sums over the chunk axis (2) from `first`: before each chunk, and after
    the last one."""
    first = first.unsqueeze(2)
    after = sums.cumsum(dim=2) + first
    before = torch.cat((first, after[:, :, :-1]), dim=2)
    return before, after[:, :, -1]


def _after(sums: Tensor) -> Tensor:
    """Return for each chunk the sum over all later ones."""
    from_each_on = sums.flip(2).cumsum(dim=2).flip(2)
    return from_each_on - sums


class _Sums(torch.autograd.Function):
    """Numerators [B, H, N, M] and normalisers [B, H, N] of eq. 12, both in the state's dtype,
    and the final state. A query's last key is its own where `last` is 0, and the one before it
    where it is -1. Products have the inputs' dtype; running sums, and what is added up of
    several products, have the state's."""

    @staticmethod
    def forward(
        ctx: Any,
        phi_q: Tensor,
        phi_k: Tensor,
        v: Tensor,
        s: Tensor,
        z: Tensor,
        last: int,
    ) -> Tensors:
        length = phi_q.shape[2]
        sum_dtype = s.dtype
        q = _chunks(phi_q)  # [B, H, n, CHUNK, C]
        k = _chunks(phi_k)  # [B, H, n, CHUNK, C]
        values = _chunks(v)  # [B, H, n, CHUNK, M]

        # The state before each chunk: s [B, H, n, C, M] and z [B, H, n, C].
        s_before, s_last = _before((k.mT @ values).to(sum_dtype), s)
        z_before, z_last = _before(k.sum(dim=3, dtype=sum_dtype), z)
        s_before = s_before.to(q.dtype)

        # Positions of the chunk contribute through masked
        # scores, those before it through the state.
        scores = (q @ k.mT).tril(last)
        numerator = (scores @ values).to(sum_dtype)
        numerator += (q @ s_before).to(sum_dtype)
        normaliser = scores.sum(dim=-1, dtype=sum_dtype)
        normaliser += (q.to(sum_dtype) * z_before.unsqueeze(3)).sum(dim=-1)

        ctx.save_for_backward(phi_q, phi_k, v, s_before, z_before)
        ctx.last = last
        ctx.mark_non_differentiable(s_last, z_last)
        return _positions(numerator, length), _positions(normaliser, length), s_last, z_last

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        phi_q, phi_k, values, s_before, z_before = ctx.saved_tensors
        length = phi_q.shape[2]
        dtype = phi_q.dtype
        sum_dtype = z_before.dtype
        q = _chunks(phi_q)
        k = _chunks(phi_k)
        v = _chunks(values)
        g = _chunks(gradients[0].to(dtype))  # d loss / d numerator
        h = _chunks(gradients[1].unsqueeze(-1))  # d loss / d normaliser

        # A key counts in every later query: through their sums over
        # later chunks, R and T of README.md.
        r_after = _after((q.mT @ g).to(sum_dtype))
        r_after = r_after.to(dtype)
        t_after = _after((q.to(sum_dtype) * h).sum(dim=3))

        # Within the chunk, through the scores and their gradients, masked as forward.
        scores = (q @ k.mT).tril(ctx.last)
        score_gradients = (g @ v.mT).to(sum_dtype)
        score_gradients += h
        score_gradients = score_gradients.tril(ctx.last).to(dtype)

        # Queries (eq. 13): keys of the chunk, and those before it through the state.
        grad_q = (score_gradients @ k).to(sum_dtype)
        grad_q += (g @ s_before.mT).to(sum_dtype)
        grad_q += h * z_before.unsqueeze(3)

        # Keys (eq. 14) and values (eq. 15): queries of the chunk, and later ones through R and T.
        grad_k = (score_gradients.mT @ q).to(sum_dtype)
        grad_k += (v @ r_after.mT).to(sum_dtype)
        grad_k += t_after.unsqueeze(3)
        grad_v = (scores.mT @ g).to(sum_dtype)
        grad_v += (k @ r_after).to(sum_dtype)

        grad_q = _positions(grad_q, length).to(dtype)
        grad_k = _positions(grad_k, length).to(dtype)
        grad_v = _positions(grad_v, length).to(dtype)
        return grad_q, grad_k, grad_v, None, None, None
