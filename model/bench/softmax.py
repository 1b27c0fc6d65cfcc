"""Stateful softmax, the paper's other baseline: the model's own layers and weights with softmax attention over cached
keys and values instead of linear attention over a state. Its cache and the time of its step grow with the position.

The cache is taken once, at full length, so that nothing is copied as it grows (the authors' own recurrent softmax
concatenates), and attention is torch's fused one. What an image takes is integrated over the positions.
"""

import numpy as np
import torch
import torch.nn.functional as F

from scanline.kernels import mixture
from scanline.model.bench.baseline import Rate
from scanline.model.bench.machine import durations
from scanline.model.bench.memory import available
from scanline.model.config import ModelConfig
from scanline.model.network.transformer import Layer, Transformer

LOOKS = 5  # positions at which a step is timed, from the first to the last
ROOM = 0.8  # of the memory that is left, for caches


def cache_bytes(config: ModelConfig, positions: int) -> int:
    """Keys and values of one image, float32, all layers."""
    return 4 * config.layers * config.heads * (config.key_width + config.value_width) * positions


def too_large(config: ModelConfig, batch: int, device: str) -> str | None:
    """Why the caches of whole images cannot be held; None where they can."""
    needed, left = batch * cache_bytes(config, config.bytes), available(device)
    if left is None or needed < ROOM * left:
        return None
    return f"the cache of {batch} images would be {needed / 1e9:.1f} GB, of {left / 1e9:.1f} GB left"


class Softmax:
    """`batch` images; a step at a position reads and extends the cache of the positions before it."""

    def __init__(self, model: Transformer, batch: int, positions: int | None = None) -> None:
        """positions: room in the cache, all N where not given; it is filled, as if that many bytes were painted."""
        config = model.config
        self.model, self.batch, self.device = model, batch, model.device.type
        self.positions = config.bytes if positions is None else positions
        shape = (config.layers, batch, config.heads, self.positions)
        self.keys = torch.empty(*shape, config.key_width, device=model.device)
        self.values = torch.empty(*shape, config.value_width, device=model.device)
        for cache in (self.keys, self.values):
            cache.copy_(torch.randn(cache.shape[2:], device=model.device))  # written, or no memory would lie behind it
        self.images = torch.zeros(batch, config.bytes, dtype=torch.uint8, device=model.device)
        self.looks = sorted(set(np.linspace(config.first, self.positions - 1, LOOKS).astype(int).tolist()))
        self.times: dict[int, list[float]] = {position: [] for position in self.looks}

    @torch.inference_mode()
    def parameters(self, position: int) -> torch.Tensor:
        """[B, 3K] for the byte at `position`, the same for all images; its keys and values are cached."""
        model, place = self.model, torch.full((1, 1), position, device=self.model.device)
        x = model.embedding(self.images, place).squeeze(1)
        for layer, keys, values in zip(model.layers, self.keys, self.values, strict=True):
            q, keys[:, :, position], values[:, :, position] = projected(layer, x)
            seen = slice(model.config.first, position + 1)
            attended = F.scaled_dot_product_attention(q.unsqueeze(2), keys[:, :, seen], values[:, :, seen])
            x = layer._finish(x, attended.flatten(1))
        return model._read_out(x.unsqueeze(1), self.images, place).squeeze(1)

    def paint(self, position: int) -> None:
        """The byte at `position` of every image."""
        u = torch.rand(self.batch, 2, device=self.model.device).clamp(1e-5, 1 - 1e-5)
        one = torch.ones(self.batch, device=self.model.device)
        self.images[:, position] = mixture.sample(self.parameters(position), u, one, self.model.config.scale)

    def measure(self, seconds: float) -> None:
        for position, times in self.times.items():
            times += durations(lambda: self.paint(position), seconds / len(self.times), self.device)  # noqa: B023

    def rate(self) -> Rate:
        """A step's median and p99 are those of each position, averaged over an image as its N steps would be."""
        length = self.model.config.bytes
        median, p99 = (self._mean_over_positions(q) for q in (50, 99))
        over = [
            {"position": position, "step_ms_median": 1e3 * float(np.median(times))}
            for position, times in self.times.items()
        ]
        calls = sum(map(len, self.times.values()))
        return Rate(self.batch, 1e3 * median, 1e3 * p99, self.batch / (length * median), calls, {"positions": over})

    def close(self) -> None:
        del self.keys, self.values

    def _mean_over_positions(self, q: float) -> float:
        """The q-th percentile of a step's seconds, straight lines between the looks, averaged over them."""
        seconds = [float(np.percentile(times, q)) for times in self.times.values()]
        span = self.looks[-1] - self.looks[0]
        return float(np.trapezoid(seconds, self.looks)) / span if span else seconds[0]


def projected(layer: Layer, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, k [..., H, C] and v [..., H, M] of x [..., D], no feature map on them."""
    config = layer.config
    keys = config.heads * config.key_width
    x = layer.attention_norm(x) if config.norm == "pre" else x
    q, k, v = layer.query_key_value(x).split((keys, keys, config.model_width), dim=-1)
    heads = (config.heads, -1)
    return q.unflatten(-1, heads), k.unflatten(-1, heads), v.unflatten(-1, heads)
