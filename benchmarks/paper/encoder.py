"""One transformer for the comparisons that train: the layers are the same, and only the attention differs.

Layers are those of the authors' code: post-norm, feed-forward with relu, one more norm at the end. Attention is one of
attentions.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.paper.attentions import Attention
from scanline.model.network.embedding import waves


@dataclass(frozen=True)
class Sizes:
    layers: int
    heads: int
    head_width: int  # C and M
    feed_forward: int

    @property
    def width(self) -> int:
        """D, of the residual stream."""
        return self.heads * self.head_width


class Layer(nn.Module):
    """Attention and feed-forward, each with a residual and a norm after it (eq. 1)."""

    def __init__(self, sizes: Sizes, attention: Attention) -> None:
        super().__init__()
        width = sizes.width
        self.heads, self.attention = (sizes.heads, sizes.head_width), attention
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.feed_forward_in = nn.Linear(width, sizes.feed_forward)
        self.feed_forward_out = nn.Linear(sizes.feed_forward, width)
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [B, N, D] for x [B, N, D]."""
        q, k, v = self.query_key_value(x).unflatten(-1, (3, *self.heads)).permute(2, 0, 3, 1, 4)
        y = self.attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.attention_norm(x + self.attention_out(y))
        return self.feed_forward_norm(x + self.feed_forward_out(F.relu(self.feed_forward_in(x))))


class Encoder(nn.Module):
    """Layers over embedded inputs; positions are sines and cosines, added to them."""

    positions: torch.Tensor

    def __init__(self, sizes: Sizes, attention: Attention, longest: int) -> None:
        super().__init__()
        self.register_buffer("positions", waves(longest, sizes.width), persistent=False)
        self.layers = nn.ModuleList(Layer(sizes, attention) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [B, N, D] for x [B, N, D]. ValueError beyond `longest`."""
        if x.shape[1] > len(self.positions):
            raise ValueError(f"a sequence of {x.shape[1]} positions, and the encoder has {len(self.positions)}")
        x = x + self.positions[: x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def reset(seed: int, build: Callable[[], nn.Module]) -> nn.Module:
    """Return the network that `build` makes with weights of that seed, the same for every attention."""
    torch.manual_seed(seed)
    return build()
