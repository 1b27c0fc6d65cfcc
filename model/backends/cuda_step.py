"""One byte of many images as a sequence of Triton kernels: the network's weights in the form that these take, the
buffers between them, and the order of the launches. A run allocates nothing and never waits for the device.
"""

from dataclasses import dataclass

import torch
from torch import nn

from scanline.kernels.logistics.triton import sample
from scanline.kernels.step.fused_triton import fused_recurrent_step
from scanline.kernels.triton.embedding import embed
from scanline.kernels.triton.layer_norm import layer_norm
from scanline.kernels.triton.linear import Halves, linear
from scanline.model.backends.slots import SlotPool
from scanline.model.config import ModelConfig
from scanline.model.network.transformer import Layer, Transformer

Norm = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Buffers:
    """What kernels hand to each other in one byte's step of B images."""

    slots: torch.Tensor  # [B] int64: the slots to step; -1: none
    active: torch.Tensor  # [B] int64: the same, but -1 where the image is done
    x: torch.Tensor  # [B, D]
    projected: torch.Tensor  # [B, 2 H C + D]
    attended: torch.Tensor  # [B, D]
    hidden: torch.Tensor  # [B, feed-forward]
    parameters: torch.Tensor  # [B, 3K], and with anchors a few more, as the head returns them

    @classmethod
    def of(cls, config: ModelConfig, batch: int, device: torch.device) -> "Buffers":
        width = config.model_width
        widths = (width, 2 * config.heads * config.key_width + width, width, config.feed_forward, 3 * config.components)
        numbers = (torch.full((batch,), -1, dtype=torch.int64, device=device) for _ in range(2))
        return cls(*numbers, *(torch.zeros(batch, width, device=device) for width in widths))

    def part(self, first: int, stop: int) -> "Buffers":
        """Returns a view of rows first..stop-1."""
        return Buffers(*(tensor[first:stop] for tensor in vars(self).values()))


class KernelSequence:
    """The byte step of one network; with `chained`, each launch starts before the previous one ends (triton/pdl.py)."""

    def __init__(self, model: Transformer, chained: bool) -> None:
        config, embedding = model.config, model.embedding
        self.scale, self.chained = config.scale, chained
        self.grid = None
        self.offsets, self.values = torch.tensor([1], device=model.device), embedding.value
        self.places = embedding.place(torch.arange(config.first, config.bytes, device=model.device))
        self.layers = [_Layer(layer, chained) for layer in model.layers]
        self.head = _Product(model.head, chained)
        self.norm = _norm(model.norm)

    def run(self, slots: SlotPool, buffers: Buffers) -> None:
        """Paints the next byte of the images in `buffers.slots` that are not done."""
        state = slots.state
        embed(
            buffers.slots, slots.images, state.position, self.offsets, self.values, self.places, buffers.x,
            buffers.active,
        )  # fmt: skip
        for i, layer in enumerate(self.layers):
            layer.run(buffers, state.s[i], state.z[i])
        self.head(buffers.x, buffers.parameters, norm=self.norm)
        sample(
            buffers.parameters, buffers.active, slots.images, slots.known, slots.bits, slots.temperature, slots.seed,
            slots.index, state.position, self.scale, self.grid, self.chained,
        )  # fmt: skip


class _Product:
    """A linear layer, with what is fused to its product."""

    def __init__(self, layer: nn.Linear, chained: bool) -> None:
        self.weight, self.bias, self.chained = Halves.of(layer.weight), layer.bias, chained

    def __call__(
        self,
        x: torch.Tensor,
        out: torch.Tensor,
        norm: Norm | None = None,
        activation: str = "none",
        residual: torch.Tensor | None = None,
    ) -> None:
        linear(x, self.weight, self.bias, out, norm, activation, residual, chained=self.chained)


class _Layer:
    def __init__(self, layer: Layer, chained: bool) -> None:
        self.config, self.chained = layer.config, chained
        self.query_key_value = _Product(layer.query_key_value, chained)
        self.attention_out = _Product(layer.attention_out, chained)
        self.feed_forward_in = _Product(layer.feed_forward_in, chained)
        self.feed_forward_out = _Product(layer.feed_forward_out, chained)
        norms = [_norm(layer.attention_norm), _norm(layer.feed_forward_norm)]
        before = self.config.norm == "pre"
        self.before: list[Norm | None] = [norm if before else None for norm in norms]
        self.after: list[Norm | None] = [None if before else norm for norm in norms]

    def run(self, buffers: Buffers, s: torch.Tensor, z: torch.Tensor) -> None:
        """Updates buffers.x, and s [S, H, C, M] and z [S, H, C] of the active slots, IN PLACE."""
        self.query_key_value(buffers.x, buffers.projected, self.before[0])
        fused_recurrent_step(
            buffers.projected, s, z, buffers.active, self.config.feature_map, buffers.attended, self.chained
        )
        self.attention_out(buffers.attended, buffers.x, residual=buffers.x)
        self._normalise(buffers.x, self.after[0])
        self.feed_forward_in(buffers.x, buffers.hidden, self.before[1], self.config.activation)
        self.feed_forward_out(buffers.hidden, buffers.x, residual=buffers.x)
        self._normalise(buffers.x, self.after[1])

    def _normalise(self, x: torch.Tensor, norm: Norm | None) -> None:
        if norm is not None:
            layer_norm(x, *norm, self.chained)


def _norm(norm: nn.LayerNorm) -> Norm:
    return norm.weight, norm.bias
