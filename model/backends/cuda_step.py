"""One step of many images as a sequence of Triton kernels: the network's weights in the form that
these take, the buffers between them, and the order of the launches. A run allocates nothing and
never waits for the device."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scanline.kernels.categorical.triton import sample as sample_categorical
from scanline.kernels.causal_conv.triton import Norm, causal_conv
from scanline.kernels.codec.triton import decode, write_intervals
from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.kernels.pixel_logistics.triton import sample as sample_pixel_logistics
from scanline.kernels.step.fused_triton import fused_recurrent_step
from scanline.kernels.step.ordered_triton import ordered_recurrence
from scanline.kernels.triton.embedding import embed
from scanline.kernels.triton.layer_norm import layer_norm
from scanline.kernels.triton.linear import NARROW, Halves, Tiling, linear
from scanline.kernels.triton.moments import blocks, row_moments
from scanline.kernels.triton.ordered_linear import OrderedWeight, ordered_linear
from scanline.kernels.triton.sampling import SlotArrays
from scanline.kernels.window import wave_table
from scanline.kernels.window.triton import read_window
from scanline.model.backends.slots import SlotPool
from scanline.model.base.config import ModelConfig
from scanline.model.network.block import Block, ClassLinear
from scanline.model.network.distribution import distribution
from scanline.model.network.embedding import Embedding
from scanline.model.network.layer import Layer
from scanline.model.network.transformer import Transformer
from scanline.model.network.window_input import WindowInput, window

# of the convolution's number and weight, and the norm of x before it
Conv = Callable[[int, Tensor, Norm | None], None]
# a window's inputs are padded with zeros to a multiple, so that their rows are loaded as vectors
ALIGNED = 16


@dataclass(frozen=True)
class Buffers:
    """What kernels hand to each other in one step of B images. What a model does not have is 0
    wide."""

    slots: Tensor  # [B] int64: the slots to step; -1: none
    active: Tensor  # [B] int64: the same, but -1 where the image is done
    inputs: Tensor  # [B, inputs of the window, padded]; the padding stays zero
    base: Tensor  # [B, C]: added to the means of a mixture; zeros where the model has no skip
    x: Tensor  # [B, D]
    convolved: Tensor  # [B, D]: the causal convolution of x, normed where norms come first
    expanded: Tensor  # [B, block width]
    projected: Tensor  # [B, 2 H C + D]
    attended: Tensor  # [B, D]
    hidden: Tensor  # [B, feed-forward]
    parameters: Tensor  # [B, P], as the head returns them, without the base
    # [B, blocks(D), 2] of x: the launch that writes x writes them, for the norm after it
    moments: Tensor

    @classmethod
    def of(cls, config: ModelConfig, batch: int, device: torch.device) -> "Buffers":
        width = config.model_width
        widths = (
            _padded(window(config).inputs) if config.step == "pixel" else 0,
            0 if config.predicts == "categorical" else config.step_bytes,
            width,
            width if config.causal_conv else 0,
            config.block_width,
            2 * config.heads * config.key_width + width,
            width,
            config.feed_forward,
            distribution(config).width,
        )
        tensors = [torch.full((batch,), -1, dtype=torch.int64, device=device) for _ in range(2)]
        tensors += [torch.zeros(batch, width, device=device) for width in widths]
        tensors.append(torch.zeros(batch, blocks(width), 2, device=device))
        return cls(*tensors)

    def part(self, first: int, stop: int) -> "Buffers":
        """Return a view of rows first..stop-1."""
        return Buffers(*(tensor[first:stop] for tensor in vars(self).values()))


@dataclass(frozen=True)
class Rows:
    """Where R rows are that may be several steps of an image, and what they cost."""

    at: Tensor  # [R] int64: the first byte of each step
    bits: Tensor  # [R] float64, to which the cost of each step is added; NaN where an image fails
    known_bits: Tensor  # [R] float64, as `bits`, of the known bytes
    costs: Tensor  # [R, C] float64, a result: of each byte


@dataclass(frozen=True)
class _Launches:
    chained: bool
    tiling: Tiling | None  # of all products; None: of each by its size
    ordered: bool = False  # with the bits of the CPU kernel, and int8 weights


class KernelSequence:
    """The step of one network; with `chained`, each launch starts before
    the previous one ends (triton/pdl.py).

    narrow: products in NARROW programs alone, which need no other program to have their bits.
    at_once: images up to which a step loads all deferred ones at once. ordered: with the weights
    of precision int8, and the bits that the CPU kernel has with them.
    """

    def __init__(
        self,
        model: Transformer,
        chained: bool,
        narrow: bool = False,
        at_once: int = 0,
        ordered: bool = False,
    ) -> None:
        self.config = model.config
        self.distribution = model.distribution
        self.chained = chained
        self.at_once = at_once
        self.ordered = ordered
        launches = _Launches(chained, NARROW if narrow else None, ordered)
        self.input = _WindowInput(model, launches) if model.window else _ByteInput(model, ordered)
        self.blocks = [_Block(block, model.config.activation, launches) for block in model.blocks]
        self.layers = [_Layer(layer, launches) for layer in model.layers]
        self.head = _Product(model.head.weight, model.head.bias, launches)
        self.norm = _norm(model.norm)

    def run(self, slots: SlotPool, buffers: Buffers, decodes: bool = False) -> None:
        """Paint the next step of the images in `buffers.slots` that are not done; decodes: from
        codes where there are some, which takes a launch more."""
        state = slots.state

        def recur(i: int) -> None:
            arrays = state.s[i], state.z[i], state.deferred[i], state.position, buffers.active
            if self.ordered:
                ordered_recurrence(
                    buffers.projected,
                    *arrays,
                    self.config.step_bytes,
                    buffers.attended,
                    chained=self.chained,
                )
                return
            fused_recurrent_step(
                buffers.projected,
                *arrays,
                self.config.step_bytes,
                self.config.feature_map,
                buffers.attended,
                self.chained,
                at_once=len(buffers.slots) <= self.at_once,
            )

        def conv(number: int, conv_weight: Tensor, norm: Norm | None) -> None:
            causal_conv(
                buffers.x,
                conv_weight,
                buffers.active,
                state.position,
                state.conv_state[number],
                self.config.channels,
                buffers.convolved,
                norm,
                buffers.moments,
                self.chained,
                self.ordered,
            )

        self.input.run(slots.images, state.position, slots.label, buffers)
        self.predict(buffers, slots.label, recur, conv)
        if decodes:
            self.decode(slots, buffers)
        self.sample(slots, buffers, code_range=slots.code_range if decodes else None)

    def predict(
        self, buffers: Buffers, labels: Tensor, recur: Callable[[int], None], conv: Conv
    ) -> None:
        """Write buffers.parameters from buffers.x, of images with labels [S]. recur(i) runs the
        recurrence of layer i: from buffers.projected to buffers.attended; conv the causal
        convolution: from buffers.x to buffers.convolved."""
        for i, block in enumerate(self.blocks):
            block.run(buffers, i, labels, conv)
        for i, layer in enumerate(self.layers):
            layer.run(buffers, i, labels, recur, conv)
        if self.config.norm == "post" and not self.ordered:
            row_moments(buffers.x, buffers.moments, self.chained)
        self.head(buffers.x, buffers.parameters, self.norm, moments=buffers.moments)

    def decode(self, slots: SlotPool, buffers: Buffers) -> None:
        """Paint the bytes of the step of the active slots that have codes; `sample` does the rest."""
        decode(
            buffers.parameters,
            buffers.base,
            buffers.active,
            slots.images,
            slots.known,
            slots.state.position,
            slots.code,
            slots.code_at,
            slots.code_value,
            slots.code_range,
            self.distribution,
            self.chained,
        )

    def sample(
        self,
        slots: SlotPool,
        buffers: Buffers,
        costs: Tensor | None = None,
        code_range: Tensor | None = None,
        rows: Rows | None = None,
    ) -> None:
        """Paint the bytes of the step, add their cost and move the positions of the active slots;
        write the cost of each byte of a mixture to `costs` [B, C] float64 where it is given. Bytes
        are decoded already where `code_range` [S] is given and not 0. With `rows`, each row paints
        its own step, and only its own bits and costs are written."""
        bits = slots.bits
        known_bits = slots.known_bits
        at = None
        can_be_guided = self.config.can_be_guided and costs is None
        if rows is not None:
            bits = rows.bits
            known_bits = rows.known_bits
            at = rows.at
            costs = rows.costs
        arrays = SlotArrays(
            slots.images,
            slots.known,
            bits,
            known_bits,
            slots.temperature,
            slots.seed,
            slots.index,
            slots.state.position,
        )
        guiding = slots.label, slots.partner, slots.guidance
        if isinstance(self.distribution, PixelLogistics):
            sample_pixel_logistics(
                buffers.parameters,
                buffers.base,
                buffers.active,
                arrays,
                self.distribution,
                costs,
                self.chained,
                guiding if can_be_guided else None,
                code_range,
                at,
                self.ordered,
            )
        else:
            sample_categorical(
                buffers.parameters,
                buffers.active,
                arrays,
                guiding,
                self.chained,
                code_range,
                at,
                self.ordered,
            )

    def write_intervals(self, values: Tensor, buffers: Buffers, intervals: Tensor) -> None:
        """Write where the intervals of the bytes `values` [B, C] of the active rows start, and how
        wide they are, to `intervals` [B, C, 2] int32."""
        write_intervals(
            buffers.parameters,
            buffers.base,
            buffers.active,
            values,
            intervals,
            self.distribution,
            self.chained,
        )


class _Product:
    """A linear layer, with what is fused to its product."""

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        launches: _Launches,
        in_8_bits: bool = False,
        mapped: int = 0,
    ) -> None:
        """An ordered one may be `in_8_bits`, and let the first `mapped` columns through the feature
        map, which elsewhere the recurrence does."""
        ordered = launches.ordered
        self.weight = OrderedWeight.of(weight, in_8_bits) if ordered else Halves.of(weight)
        self.bias = bias
        self.launches = launches
        self.mapped = mapped

    @classmethod
    def of(cls, layer: nn.Linear, launches: _Launches, mapped: int = 0) -> "_Product":
        biases = layer.biases if isinstance(layer, ClassLinear) else None
        return cls(layer.weight, layer.bias if biases is None else biases, launches, True, mapped)

    def __call__(
        self,
        x: Tensor,
        out: Tensor,
        norm: Norm | None = None,
        activation: str = "none",
        residual: Tensor | None = None,
        moments: Tensor | None = None,
        out_moments: Tensor | None = None,
        labels: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """labels: slots [B] and the label of each [S], read where there is a bias for each label."""
        chained = self.launches.chained
        if self.bias.dim() == 1:
            labels = None
        if isinstance(self.weight, OrderedWeight):
            ordered_linear(
                x,
                self.weight,
                self.bias,
                out,
                norm,
                activation,
                residual,
                labels,
                self.mapped,
                chained,
            )
            return
        linear(
            x,
            self.weight,
            self.bias,
            out,
            norm,
            activation,
            residual,
            self.launches.tiling,
            chained,
            moments,
            out_moments,
            labels,
        )


class _ByteInput:
    """The vector of the previous byte's value, that of the position and that of the label."""

    def __init__(self, model: Transformer, ordered: bool) -> None:
        embedding = model.embedding
        config = model.config
        assert isinstance(embedding, Embedding)
        self.values = embedding.value
        self.writes_moments = not ordered
        positions = torch.arange(config.first, config.bytes, device=model.device)
        self.places = embedding.place(positions)
        if ordered and config.position == "axial" and config.embedding_join == "sum":
            # The CPU kernel adds each part to the value, not their sum.
            pixel = positions // config.channels
            parts = [embedding.row[pixel // config.width], embedding.column[pixel % config.width]]
            if config.channels > 1:
                parts.append(embedding.channel[positions % config.channels])
            self.places = torch.stack(parts)
        self.classes = _classes(model)

    def run(
        self,
        images: Tensor,
        position: Tensor,
        labels: Tensor,
        buffers: Buffers,
        at: Tensor | None = None,
    ) -> None:
        """Write buffers.active, x and its moments, of the position [S] of each image [S, N]
        with labels [S], or of `at` [B]."""
        embed(
            buffers.slots,
            images,
            position,
            self.values,
            self.places,
            buffers.x,
            buffers.active,
            at,
            buffers.moments if self.writes_moments else None,
            self.classes,
            None if self.classes is None else labels,
        )


class _WindowInput:
    """GELU of a linear layer of the window's inputs, the place's and the label's vectors; the base
    of the means."""

    def __init__(self, model: Transformer, launches: _Launches) -> None:
        assert isinstance(model.embedding, WindowInput)
        assert model.window is not None
        self.window = model.window
        first = model.embedding.linear
        self.table = wave_table(self.window.waves).to(model.device)
        pixels = torch.arange(model.config.height * model.config.width, device=model.device)
        self.places = model.embedding.place(pixels)
        self.classes = _classes(model)
        # Not chained: its residual is written by the launch before
        # it, so it may not be fetched early.
        self.linear = _Product(
            self._pad(first.weight), first.bias, replace(launches, chained=False)
        )
        self.skip = None
        # where the references are among the inputs, which are added to an ordered product
        self.references: slice | None = None
        if model.config.predicts == "pixel_logistics":
            weight = model.skip.weight.clone()
            channels = self.window.channels
            if self.window.centred and launches.ordered:
                end = weight.shape[1]
                self.references = slice(end - channels, end)
            elif self.window.centred:
                # The reference is among the inputs, so that reference + skip is one product.
                weight[:, -channels:] += torch.eye(channels, device=model.device)
            self.skip = _Product(self._pad(weight), model.skip.bias, launches)

    def run(
        self,
        images: Tensor,
        position: Tensor,
        labels: Tensor,
        buffers: Buffers,
        at: Tensor | None = None,
    ) -> None:
        """Write buffers.active, inputs, x and its moments, and base: of the position [S] of each
        image [S, N] with labels [S], or of `at` [B]."""
        read_window(
            self.window,
            buffers.slots,
            images,
            position,
            self.table,
            self.places,
            buffers.inputs,
            buffers.x,
            buffers.active,
            at,
            self.classes,
            None if self.classes is None else labels,
        )
        self.linear(
            buffers.inputs,
            buffers.x,
            activation="gelu",
            residual=buffers.x,
            out_moments=buffers.moments,
        )
        if self.skip is not None:
            references = None if self.references is None else buffers.inputs[:, self.references]
            self.skip(buffers.inputs, buffers.base, residual=references)

    def _pad(self, weight: Tensor) -> Tensor:
        """Return a weight [O, K] of the first K inputs as one of all inputs and their padding: zero
        where it has no column, which adds nothing."""
        return F.pad(weight, (0, _padded(self.window.inputs) - weight.shape[1]))


class _Block:
    """A residual block between the window and the layers."""

    def __init__(self, block: Block, activation: str, launches: _Launches) -> None:
        self.norm = _norm(block.norm)
        self.activation = activation
        self.conv_weight = block.taps
        self.expand = _Product.of(block.expand, launches)
        self.contract = _Product.of(block.contract, launches)

    def run(self, buffers: Buffers, i: int, labels: Tensor, conv: Conv) -> None:
        """Update buffers.x and its moments IN PLACE; this is block i."""
        of = buffers.active, labels
        if self.conv_weight is None:
            self.expand(
                buffers.x,
                buffers.expanded,
                self.norm,
                self.activation,
                moments=buffers.moments,
                labels=of,
            )
        else:
            conv(i, self.conv_weight, self.norm)
            self.expand(buffers.convolved, buffers.expanded, activation=self.activation, labels=of)
        self.contract(buffers.expanded, buffers.x, residual=buffers.x, out_moments=buffers.moments)


class _Layer:
    def __init__(self, layer: Layer, launches: _Launches) -> None:
        self.config = layer.config
        self.launches = launches
        self.conv_weight = layer.taps
        mapped = 2 * self.config.heads * self.config.key_width
        self.query_key_value = _Product.of(layer.query_key_value, launches, mapped)
        self.attention_out = _Product.of(layer.attention_out, launches)
        self.feed_forward_in = _Product.of(layer.feed_forward_in, launches)
        self.feed_forward_out = _Product.of(layer.feed_forward_out, launches)
        norms = [_norm(layer.attention_norm), _norm(layer.feed_forward_norm)]
        before = self.config.norm == "pre"
        self.before: list[Norm | None] = [norm if before else None for norm in norms]
        self.after: list[Norm | None] = [None if before else norm for norm in norms]

    def run(
        self, buffers: Buffers, i: int, labels: Tensor, recur: Callable[[int], None], conv: Conv
    ) -> None:
        """Update buffers.x IN PLACE, and its moments where norms come first; this is layer i."""
        moments = buffers.moments if self.config.norm == "pre" else None
        of = buffers.active, labels
        self.query_key_value(buffers.x, buffers.projected, self.before[0], moments=moments)
        recur(i)
        self.attention_out(buffers.attended, buffers.x, residual=buffers.x, out_moments=moments)
        self._normalise(buffers.x, self.after[0])
        if self.conv_weight is None:
            self.feed_forward_in(
                buffers.x,
                buffers.hidden,
                self.before[1],
                self.config.activation,
                moments=moments,
                labels=of,
            )
        else:
            conv(self.config.blocks + i, self.conv_weight, self.before[1])
            self.feed_forward_in(
                buffers.convolved, buffers.hidden, activation=self.config.activation, labels=of
            )
        self.feed_forward_out(buffers.hidden, buffers.x, residual=buffers.x, out_moments=moments)
        self._normalise(buffers.x, self.after[1])

    def _normalise(self, x: Tensor, norm: Norm | None) -> None:
        if norm is not None:
            layer_norm(x, *norm, self.launches.chained, self.launches.ordered)


def _classes(model: Transformer) -> Tensor | None:
    """Return the vectors [1 + number of classes, D] of the labels, None where the model has no
    classes."""
    return model.classes if model.config.classes else None


def _norm(norm: nn.LayerNorm) -> Norm:
    return norm.weight, norm.bias


def _padded(inputs: int) -> int:
    return -(-inputs // ALIGNED) * ALIGNED
