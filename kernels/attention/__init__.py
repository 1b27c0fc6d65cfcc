"""Causal linear attention over a whole sequence (eq. 8-15): the parallel form, for training,
scoring and prefill.

`reference.py` is the literal loop, `chunked.py` runs on any device, `triton.py` on a GPU. All have
one signature, but `triton.py` takes no weights (`with_second_keys` replaces them).
`training_triton.py` also splits a layer's projection and applies the feature map; it and
`triton.py` share the walks through chunks, `walks_triton.py`. The implementation is chosen by the
device of the tensors and by the kernels that compile there, and logged once.
"""

import logging
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from scanline.kernels import gpu
from scanline.kernels.attention import chunked

log = logging.getLogger("scanline.kernels")

# largest C or M for which a program's tiles fit the registers and shared memory of a GPU
MAX_HEAD_WIDTH = 128
# Of the operator for training: float32 and wider heads need more registers than there are.
TRAINING_DTYPES = (torch.bfloat16,)
MAX_TRAINING_WIDTH = 32

Attention = Callable[..., tuple[Tensor, ...]]

__all__ = ["causal_attention_of_projection", "causal_linear_attention"]


def causal_linear_attention(
    phi_q: Tensor,  # [B, H, N, C]
    phi_k: Tensor,  # [B, H, N, C]
    v: Tensor,  # [B, H, N, M]
    s: Tensor | None = None,  # [B, H, C, M]
    z: Tensor | None = None,  # [B, H, C]
    weight: Tensor | None = None,  # [B, N]
) -> tuple[Tensor, ...]:
    """Return y [B, H, N, M] and the state s, z after the last position; see
    `chunked.causal_linear_attention`."""
    if not phi_q.is_cuda:
        return chunked.causal_linear_attention(phi_q, phi_k, v, s, z, weight)
    if weight is None:
        return _on_gpu(phi_q, phi_k, v, s, z)
    phi_q, phi_k, v = with_second_keys(phi_q, phi_k, v, weight)
    y, s, z = _on_gpu(phi_q, phi_k, v, s, z)
    return y[:, :, ::2], s, z


def causal_attention_of_projection(
    # [B, N, 2 H C + H M]: queries, keys and values before the feature map, elu + 1
    projected: Tensor,
    heads: int,
    key_width: int,
    weight: Tensor | None = None,  # [B, N]
) -> Tensor | None:
    """Return y [B, N, H M] by one operator in training on a GPU; None where it does not run."""
    head_width = projected.shape[2] // heads
    value_width = head_width - 2 * key_width
    if (
        projected.device.type != gpu.TRAINING
        or not projected.requires_grad
        or projected.dtype not in TRAINING_DTYPES
        or max(key_width, value_width) > MAX_TRAINING_WIDTH
        or not gpu.trains("attention", heads, key_width, value_width)
    ):
        return None
    from scanline.kernels.attention.training_triton import (
        causal_attention_of_projection as operator,
    )

    return operator(projected, heads, key_width, weight)


def with_second_keys(
    phi_q: Tensor, phi_k: Tensor, v: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return phi_q, phi_k and v of 2 N positions, whose even outputs are those of keys weighted by
    `weight` [B, N], for kernels without weights: after k_j comes a second key, (w_j - 1) k_j, which
    only later queries see."""
    rest = phi_k * (weight - 1)[:, None, :, None].to(phi_k.dtype)
    phi_q = phi_q.repeat_interleave(2, dim=2)
    phi_k = torch.stack((phi_k, rest), dim=3).flatten(2, 3)
    v = v.repeat_interleave(2, dim=2)
    return phi_q, phi_k, v


def _on_gpu(q: Tensor, k: Tensor, v: Tensor, *state: Tensor | None) -> tuple[Tensor, ...]:
    attention: Attention = chunked.causal_linear_attention
    key_width = q.shape[-1]
    value_width = v.shape[-1]
    one_type = q.dtype == k.dtype == v.dtype != torch.float64
    if one_type and max(key_width, value_width) <= MAX_HEAD_WIDTH:
        gradients = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
        attention = _best_on_gpu(q.device, q.dtype, key_width, value_width, gradients)
    return attention(q, k, v, *state)


def keep_out_of_graphs() -> None:
    """Have torch.compile end its graphs at the kernels: it cannot
    trace into Triton's autograd function.

    Not at import: this one must not ask for a GPU, because no
    fork of a process that has can use it.
    """
    global _on_gpu
    _on_gpu = torch.compiler.disable(_on_gpu)


@cache
def _best_on_gpu(
    device: torch.device, dtype: torch.dtype, key_width: int, value_width: int, gradients: bool
) -> Attention:
    """Return the Triton implementation where this GPU can run it at these widths, else the one in
    torch."""
    what = f"causal attention of {key_width} x {value_width}, {dtype}"
    if gradients:
        what += ", with gradients"
    reason = gpu.missing(device)
    if reason is None:
        # Only a run shows whether the kernels compile and fit the GPU's shared memory.
        try:
            from scanline.kernels.attention.triton import LONG
            from scanline.kernels.attention.triton import causal_linear_attention as attention

            _try(attention, LONG + 32, device, dtype, key_width, value_width, gradients)
        except Exception as error:  # of the compiler, the assembler, the driver or torch
            reason = gpu.summary(error)
            log.debug("the kernels of causal attention failed", exc_info=error)
        else:
            log.info("%s: by Triton", what)
            return attention
    log.warning("%s: by torch, which is slower (%s)", what, reason)
    return chunked.causal_linear_attention


def _try(
    attention: Attention,
    length: int,
    device: torch.device,
    dtype: torch.dtype,
    key_width: int,
    value_width: int,
    gradients: bool,
) -> None:
    """Run it once on two heads; `length` must be one at which every kernel is launched."""
    with torch.inference_mode(False), torch.set_grad_enabled(gradients):
        keys = torch.ones(
            1, 2, length, key_width, device=device, dtype=dtype, requires_grad=gradients
        )
        values = torch.ones(
            1, 2, length, value_width, device=device, dtype=dtype, requires_grad=gradients
        )
        y = attention(keys, keys, values)[0]
        if gradients:
            y.sum().backward()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
