"""Attentions without a causal mask, of sequences of different lengths, on q, k, v [B, H, N, C or M].

The mask [B, N] is true for positions and false for padding, which is at the end and is not read. Softmax is torch's,
LSH the authors' library's, linear this project's.
"""

import torch
import torch.nn.functional as F

from benchmarks.paper.attentions import CHUNK, reformer
from scanline.kernels.attention.noncausal import linear_attention
from scanline.kernels.feature_maps import elu_plus_one

ROUNDS = 4  # of LSH


def softmax(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Softmax over all positions, by torch's scaled_dot_product_attention."""
    return F.scaled_dot_product_attention(q, k, v, mask[:, None, None])


def linear(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Linear attention with elu + 1 (eq. 4-7)."""
    return linear_attention(elu_plus_one(q), elu_plus_one(k), v, mask)


def lsh(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The Reformer's attention with 4 rounds. The library ignores k and draws new planes at each call; sequences are
    padded to whole chunks, with queries of 1, since it divides by their norm."""
    from fast_transformers.masking import FullMask, LengthMask

    length, more = q.shape[2], -q.shape[2] % CHUNK
    q, v = F.pad(q, (0, 0, 0, more), value=1.0).transpose(1, 2), F.pad(v, (0, 0, 0, more)).transpose(1, 2)
    lengths = LengthMask(mask.sum(dim=1), max_len=length + more)
    y: torch.Tensor = reformer(ROUNDS, CHUNK)(q, q, v, FullMask(length + more), lengths, lengths)
    return y[:, :length].transpose(1, 2)
