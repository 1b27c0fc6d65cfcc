"""A byte of many images as launches of Triton kernels: the network's weights as these take them, the memory that a byte
passes through, and the order of the launches. Nothing is allocated on the way and the host is asked nothing.
"""

from dataclasses import dataclass

import torch
from torch import nn

from scanline.kernels.mixture.triton import sample
from scanline.kernels.step.fused_triton import recurrent_step
from scanline.kernels.triton.embedding import embed
from scanline.kernels.triton.layer_norm import layer_norm
from scanline.kernels.triton.linear import Halves, linear
from scanline.model.backends.slots import SlotPool
from scanline.model.config import ModelConfig
from scanline.model.network.transformer import Layer, Transformer

Norm = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Buffers:
    """Memory of one byte's step on its way through the network, for B images."""

    seats: torch.Tensor  # [B] int64: whose turn it is; -1: nobody's
    rows: torch.Tensor  # [B] int64: of those, who is not done
    x: torch.Tensor  # [B, D]
    projected: torch.Tensor  # [B, 2 H C + D]
    attended: torch.Tensor  # [B, D]
    hidden: torch.Tensor  # [B, feed-forward]
    parameters: torch.Tensor  # [B, 3K], and with anchors a few more, as the head gives them

    @classmethod
    def of(cls, config: ModelConfig, batch: int, device: torch.device) -> "Buffers":
        width = config.model_width
        widths = (width, 2 * config.heads * config.key_width + width, width, config.feed_forward, config.head_width)
        numbers = (torch.full((batch,), -1, dtype=torch.int64, device=device) for _ in range(2))
        return cls(*numbers, *(torch.zeros(batch, width, device=device) for width in widths))

    def part(self, first: int, stop: int) -> "Buffers":
        """A view of some rows."""
        return Buffers(*(tensor[first:stop] for tensor in vars(self).values()))


class KernelSequence:
    """The byte step of one network; `chained` launches begin while the ones before them end (kernels/handover)."""

    def __init__(self, model: Transformer, chained: bool) -> None:
        config, embedding = model.config, model.embedding
        self.scale, self.chained = config.scale, chained
        self.grid = (config.width, config.channels) if config.anchors else None
        self.offsets, self.values = embedding.offsets, embedding.value
        self.places = embedding.place(torch.arange(config.first, config.bytes, device=model.device))
        self.layers = [_Layer(layer, chained) for layer in model.layers]
        self.head = _Product(model.head, chained)
        self.norm = _norm(model.norm)

    def run(self, slots: SlotPool, work: Buffers) -> None:
        """Paints the next byte of the images in `work.seats`, of those that are not done."""
        state = slots.state
        embed(work.seats, slots.images, state.position, self.offsets, self.values, self.places, work.x, work.rows)
        for i, layer in enumerate(self.layers):
            layer.run(work, state.s[i], state.z[i])
        self.head(work.x, work.parameters, norm=self.norm)
        sample(
            work.parameters, work.rows, slots.images, slots.known, slots.bits, slots.temperature, slots.seed,
            slots.index, state.position, self.scale, self.grid, self.chained,
        )  # fmt: skip


class _Product:
    """A linear layer with what is fused to it."""

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

    def run(self, work: Buffers, s: torch.Tensor, z: torch.Tensor) -> None:
        """work.x -> work.x; s [R, H, C, M] and z [R, H, C] are updated IN PLACE."""
        self.query_key_value(work.x, work.projected, self.before[0])
        recurrent_step(work.projected, s, z, work.rows, self.config.feature_map, work.attended, self.chained)
        self.attention_out(work.attended, work.x, residual=work.x)
        self._normalise(work.x, self.after[0])
        self.feed_forward_in(work.x, work.hidden, self.before[1], self.config.activation)
        self.feed_forward_out(work.hidden, work.x, residual=work.x)
        self._normalise(work.x, self.after[1])

    def _normalise(self, x: torch.Tensor, norm: Norm | None) -> None:
        if norm is not None:
            layer_norm(x, *norm, self.chained)


def _norm(norm: nn.LayerNorm) -> Norm:
    return norm.weight, norm.bias
