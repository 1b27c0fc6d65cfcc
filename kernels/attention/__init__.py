"""Causal linear attention over a whole sequence (eq. 8-15): the parallel form, for training, scoring and prefill.

`reference.py` is the literal loop, `chunked.py` runs on any device, `triton.py` on a GPU; all have one signature. The
implementation is chosen by the device of the tensors, and logged once.

`noncausal.py` is linear attention to all positions (eq. 4-6), which images do not need.
"""

import logging
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import torch

from scanline.kernels.attention import chunked

log = logging.getLogger("scanline.kernels")

WIDEST = 128  # largest C or M for which a program's tiles fit the registers and shared memory of a GPU

Attention = Callable[..., tuple[torch.Tensor, ...]]

__all__ = ["causal_linear_attention"]


def causal_linear_attention(
    phi_q: torch.Tensor,  # [B, H, N, C]
    phi_k: torch.Tensor,  # [B, H, N, C]
    v: torch.Tensor,  # [B, H, N, M]
    s: torch.Tensor | None = None,  # [B, H, C, M]
    z: torch.Tensor | None = None,  # [B, H, C]
) -> tuple[torch.Tensor, ...]:
    """Returns y [B, H, N, M] and the state s, z after the last position; see `chunked.causal_linear_attention`."""
    if phi_q.is_cuda:
        return _on_gpu(phi_q, phi_k, v, s, z)
    return chunked.causal_linear_attention(phi_q, phi_k, v, s, z)


def _on_gpu(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *state: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    one_type = q.dtype == k.dtype == v.dtype != torch.float64
    if one_type and max(q.shape[-1], v.shape[-1]) <= WIDEST:
        return _best_on_gpu()(q, k, v, *state)
    return chunked.causal_linear_attention(q, k, v, *state)


# torch.compile cannot trace into Triton's autograd function. Only with CUDA: importing torch.compiler costs 150 MB.
if torch.cuda.is_available():
    _on_gpu = torch.compiler.disable(_on_gpu)


@cache
def _best_on_gpu() -> Attention:
    if find_spec("triton"):
        from scanline.kernels.attention.triton import causal_linear_attention as attention

        log.info("causal attention on the GPU by Triton")
        return attention
    log.info("causal attention on the GPU by torch: Triton is not installed")
    return chunked.causal_linear_attention
