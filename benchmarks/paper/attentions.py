"""The causal attentions that are compared, each as one function on q, k, v [B, H, N, C | M] that returns [B, H, N, M].

softmax is torch's scaled_dot_product_attention: by itself torch takes a fused
kernel, which keeps no N x N matrix; "softmax, unfused" is torch's plain implementation, which does, as the paper's
baseline did. LSH (the Reformer's) and "linear, authors" are the authors' library; without it they are missing. The
others are this project's kernels.
"""

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from scanline.kernels.attention import causal_linear_attention, reference
from scanline.kernels.feature_maps import elu_plus_one
from scanline.model.bench.baselines import missing_library, project
from scanline.model.config import ModelConfig
from scanline.model.network.block import Conv
from scanline.model.network.transformer import Layer, Transformer

Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]  # of q, k, v

BUCKETS = 64  # of the paper's LSH (section 4.2)
CHUNK = 32  # positions
LIBRARY = ("lsh-1", "lsh-4", "lsh-8", "linear, authors")  # attentions of the authors' library


def attention(name: str, chunk: int = CHUNK) -> Attention:
    """Return the attention of that name. chunk: of LSH. KeyError for an unknown name."""
    if name.startswith("lsh-"):
        return partial(lsh, int(name.removeprefix("lsh-")), chunk)
    return ATTENTIONS[name]


def unavailable(name: str) -> str | None:
    """Return why an attention cannot be measured here; None where it can."""
    return missing_library() if name in LIBRARY else None


def softmax(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def unfused_softmax(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return softmax(q, k, v)


def linear(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return causal_linear_attention(elu_plus_one(q), elu_plus_one(k), v)[0]


def linear_reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return reference.causal_linear_attention(elu_plus_one(q), elu_plus_one(k), v)[0]


def authors_linear(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return _run(_authors_linear(q.shape[-1]), q, k, v)


def lsh(rounds: int, chunk: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The Reformer's attention, without dropout. The library ignores k, draws new planes at each call from torch's
    generator, averages over the rounds, and adds a dense N x N mask. Sequences are padded to whole chunks, with queries
    of 1, since it divides by their norm."""
    length, more = q.shape[2], -q.shape[2] % chunk
    if more:
        q, v = F.pad(q, (0, 0, 0, more), value=1.0), F.pad(v, (0, 0, 0, more))
    return _run(_reformer(rounds, chunk), q, q, v)[:, :, :length]


ATTENTIONS: dict[str, Attention] = {
    "softmax": softmax,
    "softmax, unfused": unfused_softmax,
    "linear, authors": authors_linear,
    "linear, reference": linear_reference,
    "linear": linear,
}


def _run(module: nn.Module, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Call an attention of the library, whose layout is [B, N, H, C]."""
    seen, lengths = _masks(q.shape[0], q.shape[2])
    y: torch.Tensor = module(*(x.transpose(1, 2) for x in (q, k, v)), seen, lengths, lengths)
    return y.transpose(1, 2)


@lru_cache(maxsize=1)
def _masks(batch: int, length: int) -> tuple[Any, Any]:
    """Return the library's mask and lengths, kept since a model builds them once for all its layers."""
    from fast_transformers.masking import LengthMask, TriangularCausalMask

    return TriangularCausalMask(length), LengthMask(torch.full((batch,), length), max_len=length)


@cache
def _reformer(rounds: int, chunk: int) -> nn.Module:
    from fast_transformers.attention.reformer_attention import ReformerAttention

    # `bits` planes and their negatives are two buckets each
    return ReformerAttention(chunk_size=chunk, bits=BUCKETS // 2, rounds=rounds, attention_dropout=0.0)


@cache
def _authors_linear(width: int) -> nn.Module:
    from fast_transformers.attention.causal_linear_attention import CausalLinearAttention

    return CausalLinearAttention(width)


class AttentionLayer(Layer):
    """A layer of the network with another attention. It has no recurrent step: its state is the whole sequence."""

    def __init__(self, config: ModelConfig, attend: Attention) -> None:
        super().__init__(config)
        self.attend = attend

    def parallel(  # type: ignore[override]
        self, x: torch.Tensor, s: torch.Tensor, z: torch.Tensor, conv: Conv, number: int
    ) -> tuple[torch.Tensor, ...]:
        """Return outputs [B, N, D] for x [B, N, D], and s, z as they were given."""
        q, k, v = (part.transpose(1, 2) for part in project(self, x))
        return self._finish(x, self.attend(q, k, v).transpose(1, 2).flatten(2), conv, number), s, z

    def step(self, x: torch.Tensor, s: torch.Tensor, z: torch.Tensor, conv: Conv, number: int) -> torch.Tensor:
        """Raise TypeError."""
        raise TypeError("only linear attention is a recurrence")


class AttentionTransformer(Transformer):
    """The network with another attention in all its layers. Of one seed, all attentions start with one set of
    weights."""

    def __init__(self, config: ModelConfig, attend: Attention) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(AttentionLayer(config, attend) for _ in range(config.layers))  # type: ignore[assignment]
        self._initialise()
