"""The network: embedding, residual blocks, layers and head, with two views of one set of weights.

`parallel` runs all steps of images at once (training, scoring, prefill); `step` runs one step, a
byte or a whole pixel, of many images (painting). Tests check that they agree. Both read the input
of a step (`_read_in`), run the layers (layer.py) and make the parameters of the distribution of
the step's bytes (`_read_out`).

The network keeps no state: `State` is an argument, and each view says what it changes.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scanline.kernels import LN2
from scanline.kernels.causal_conv import causal_conv, causal_conv_step, normed_causal_conv
from scanline.model.base.config import ModelConfig
from scanline.model.base.state import State
from scanline.model.network.block import Block, Conv
from scanline.model.network.class_head import ClassHead
from scanline.model.network.distribution import distribution
from scanline.model.network.embedding import Embedding
from scanline.model.network.initial_weights import draw_weights, spread_components
from scanline.model.network.layer import Layer
from scanline.model.network.window_input import WindowInput, window


class Transformer(nn.Module):
    """Predicts the parameters of the distribution of the next step's bytes from the bytes painted
    so far."""

    embedding: Embedding | WindowInput
    class_head: ClassHead | None = None  # of a model directory that has one; not in the state_dict

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.window = window(config) if config.step == "pixel" else None
        self.distribution = distribution(config)
        self.embedding = WindowInput(config) if self.window else Embedding(config)
        blocks = [Block(config, number) for number in range(config.blocks)]
        layers = [Layer(config, config.blocks + number) for number in range(config.layers)]
        self.blocks: Sequence[Block] = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.layers: Sequence[Layer] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.norm = nn.LayerNorm(config.model_width)
        self.head = nn.Linear(config.model_width, self.distribution.width)
        if self.window and config.predicts == "pixel_logistics":
            self.skip = nn.Linear(self.window.linear_inputs, config.channels)
        if config.classes:  # row 0 is an image without a class; at first, all rows are the same
            self.classes = nn.Parameter(torch.zeros(1 + len(config.classes), config.model_width))
        if not self.head.weight.is_meta:  # else a model that is built for its shapes alone
            draw_weights(self, config.layers)
            spread_components(self.head, config)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    @property
    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def parallel(
        self,
        images: Tensor,  # [B, N] uint8
        state: State | None = None,  # changed in place
        stop: int | None = None,
        labels: Tensor | None = None,  # [B] int64, as in `step`
    ) -> Tensor:
        """Return parameters [B, n, P] of the n steps of bytes start..stop-1, each from the bytes
        before it.

        start is the state's position, which must be the same for all its images; without a state,
        it is the first byte that the network predicts. stop defaults to N. A given state is moved
        to `stop` IN PLACE, and no gradients flow then. ValueError where the images are not N
        bytes, or start..stop-1 is empty, beyond N or not whole steps.
        """
        length = self.config.bytes
        size = self.config.step_bytes
        start = self.config.first if state is None else int(state.position[0])
        if stop is None:
            stop = length
        in_image = images.shape[1] == length and start < stop <= length
        whole_steps = start % size == 0 and stop % size == 0
        if not in_image or not whole_steps:
            raise ValueError(
                f"cannot run bytes {start} to {stop} of images of {images.shape[1]} bytes"
            )
        position = torch.arange(start, stop, size, device=self.device).unsqueeze(0)
        conv = self._sequence_conv(start, state)
        x, base = self._read_in(images, position, labels, conv)
        for number in range(len(self.layers)):
            x = self._run_layer(number, x, state, conv, labels)
        if state is not None:
            state.position.fill_(stop)
        return self._read_out(x, base)

    def layer_outputs(
        self,
        images: Tensor,  # [B, N] uint8
        start: int,
        stop: int,
        state: State | None,  # changed in place, but for its position
        depth: int,
    ) -> list[Tensor]:
        """Return the layers' input [B, n, D] at the steps of bytes start..stop-1 of images without a
        class, and the outputs of the first `depth` layers."""
        position = torch.arange(start, stop, self.config.step_bytes, device=self.device)
        conv = self._sequence_conv(start, state)
        x, _ = self._read_in(images, position.unsqueeze(0), None, conv)
        outputs = [x]
        for number in range(depth):
            x = self._run_layer(number, x, state, conv, None)
            outputs.append(x)
        return outputs

    def sampled(
        self,
        images: Tensor,  # [B, N] uint8
        position: Tensor,  # [B, n] int64: numbers of steps, ascending
        weight: Tensor,  # [B, n]
        labels: Tensor | None = None,  # [B] int64, as in `step`
    ) -> Tensor:
        """Return parameters [B, n, P] of the steps at `position`, each standing for `weight` steps,
        none where that is 0: an estimate of `parallel` from fewer steps, for training a model
        without a causal convolution."""

        def conv(x: Tensor, norm: nn.Module, conv_weight: Tensor, number: int) -> Tensor:
            raise ValueError("a model with a causal convolution needs all steps of an image")

        x, base = self._read_in(images, position * self.config.step_bytes, labels, conv)
        for layer in self.layers:
            x = layer.parallel(x, conv, labels, weight)
        return self._read_out(x, base)

    def step(
        self,
        images: Tensor,  # [B, N] uint8
        state: State,  # changed in place
        labels: Tensor | None = None,  # [B] int64
    ) -> Tensor:
        """Return parameters [B, P] for one step of each image, at its own position.

        labels: 0 for an image without a class and k + 1 for one of class k; None where all are 0.
        A model without classes does not read them.

        Updates `state` IN PLACE: s and z of every layer, and the position moves by the bytes of a
        step. The position of a finished image stays at N, and its parameters have no meaning.
        """
        length = self.config.bytes
        size = self.config.step_bytes
        position = state.position.clamp(max=length - size)
        conv = self.step_conv(position, state.conv_state)
        x, base = self._read_in(images, position.unsqueeze(1), labels, conv)
        x = x.squeeze(1)
        for number, layer in enumerate(self.layers):
            x = layer.step(x, state.s[number], state.z[number], conv, labels)
        state.position.add_(size).clamp_(max=length)
        return self._read_out(x.unsqueeze(1), base).squeeze(1)

    def bits(self, parameters: Tensor, images: Tensor, start: int, stop: int) -> Tensor:
        """Return the cost [B, stop - start] in bits, float64, of bytes start..stop-1 of images [B,
        N] uint8 under the parameters [B, n, P] of their steps."""
        values = images[:, start:stop].unflatten(1, (-1, self.config.step_bytes))
        log_probs = self.distribution.log_prob(parameters, values)
        return -log_probs.double().flatten(1) / LN2

    def _run_layer(
        self,
        number: int,
        x: Tensor,  # [B, n, D]
        state: State | None,  # its part is changed in place
        conv: Conv,
        labels: Tensor | None,
    ) -> Tensor:
        """Return the outputs [B, n, D] of a layer."""
        layer = self.layers[number]
        if state is None:
            return layer.parallel(x, conv, labels)
        s = state.s[number].float()
        z = state.z[number]
        x, state.s[number], state.z[number] = layer.resumed(x, s, z, conv, labels)
        return x

    def _sequence_conv(self, start: int, state: State | None) -> Conv:
        """Return the causal convolution of a sequence from byte `start` on; a given state is
        changed IN PLACE."""
        first_pixel = start // self.config.channels

        def conv(x: Tensor, norm: nn.Module, conv_weight: Tensor, number: int) -> Tensor:
            width = self.config.width
            if state is None and isinstance(norm, nn.LayerNorm):
                return normed_causal_conv(x, norm.weight, norm.bias, conv_weight, width)
            conv_state = None if state is None else state.conv_state[number]
            return causal_conv(norm(x), conv_weight, first_pixel, width, conv_state)

        return conv

    def step_conv(self, position: Tensor, conv_state: Tensor) -> Conv:
        """Return the causal convolution of a step at `position` [B]; `conv_state` [E, B, R, D] is
        changed IN PLACE."""
        pixel = position // self.config.channels

        def conv(x: Tensor, norm: nn.Module, conv_weight: Tensor, number: int) -> Tensor:
            rows = norm(x).view(len(pixel), -1)  # of blocks [B, 1, D], of layers [B, D]
            y = causal_conv_step(rows, conv_weight, pixel, self.config.width, conv_state[number])
            return y.view(x.shape)

        return conv

    def _read_in(
        self,
        images: Tensor,  # [B, N]
        position: Tensor,  # [B or 1, n]
        labels: Tensor | None,  # [B]
        conv: Conv,
    ) -> tuple[Tensor, Tensor | None]:
        """Return x [B, n, D], the layers' input at these positions, and the base [B, n, C] that is
        added to the means of pixel logistics, or None."""
        if self.window is None:
            x = self.embedding(images, position)
            return self._with_class(x, labels), None
        pixel = position // self.config.channels
        inputs, reference = self.window.read(images, pixel)
        x = self._with_class(self.embedding(inputs, pixel), labels)
        for block in self.blocks:
            x = block(x, conv, labels)
        if self.config.predicts != "pixel_logistics":
            return x, None
        with torch.autocast(x.device.type, enabled=False):
            linear_inputs = inputs[..., : self.window.linear_inputs]
            return x, reference + self._skipped(linear_inputs)

    def _with_class(self, x: Tensor, labels: Tensor | None) -> Tensor:
        """Return x [B, n, D] with the vectors of the images' labels [B] added, where the model has
        classes."""
        if not self.config.classes:
            return x
        if labels is None:
            return x + self.classes[0]
        return x + F.embedding(labels, self.classes).unsqueeze(1)

    def _skipped(self, inputs: Tensor) -> Tensor:
        """Return `skip` of inputs [B, n, .], [B, n, C], with the pixels as columns of the product:
        as its rows, with few outputs each, the rounding of a pixel's sums would depend on its
        place in the batch."""
        pixels = inputs.flatten(0, 1).T
        outputs = torch.addmm(self.skip.bias.unsqueeze(1), self.skip.weight, pixels)
        return outputs.T.unflatten(0, inputs.shape[:2])

    def _read_out(self, x: Tensor, base: Tensor | None) -> Tensor:
        """Return parameters [B, n, P] for x [B, n, D] and the means' base; in float32 even under
        autocast, since bfloat16 rounds a mean near 1 to a whole byte."""
        with torch.autocast(x.device.type, enabled=False):
            parameters = self.head(self.norm(x.float()))
            if base is None:
                return parameters
            components = self.config.components
            mean_count = components * self.config.channels
            rest = parameters.shape[-1] - components - mean_count
            logits, means, others = parameters.split((components, mean_count, rest), dim=-1)
            means = means + base.repeat(1, 1, components)
            return torch.cat((logits, means, others), dim=-1)


def first_byte_bits(config: ModelConfig, values: Tensor) -> Tensor:
    """Return the bits [B] float64 of first bytes `values` [B] under the histogram of a model
    without start token."""
    histogram = torch.tensor(config.first_byte_histogram, dtype=torch.float64, device=values.device)
    return -histogram[values.long()].log2()


def with_first_byte(config: ModelConfig, images: Tensor, predicted: Tensor) -> Tensor:
    """Return the bits [B, N] of all bytes, given those [B, N - first] that the network predicts."""
    if not config.first:
        return predicted
    first = first_byte_bits(config, images[:, 0]).unsqueeze(1)
    return torch.cat((first, predicted), dim=1)
