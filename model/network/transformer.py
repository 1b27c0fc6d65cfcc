"""One network with two views of one set of weights: `parallel` runs a whole sequence
(training, scoring, prefill), `step` runs one step, a byte or a whole pixel, of many images
(painting). Tests check that they agree.

The network keeps no state: `State` is an argument, and each view says what it changes.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from scanline.kernels import LN2
from scanline.kernels.attention import causal_attention_of_projection, causal_linear_attention
from scanline.kernels.causal_conv import causal_conv, causal_conv_step, normed_causal_conv
from scanline.kernels.feature_maps import feature_map
from scanline.kernels.step import recurrent_step
from scanline.model.base.config import ModelConfig
from scanline.model.base.state import State
from scanline.model.network.block import (
    ACTIVATIONS,
    Activation,
    Block,
    ClassLinear,
    Conv,
    new_conv_weight,
    with_conv,
)
from scanline.model.network.class_head import (
    READ_STEPS,
    ClassHead,
    ClassReading,
    FeatureShape,
    in_threads,
)
from scanline.model.network.distribution import distribution
from scanline.model.network.embedding import Embedding
from scanline.model.network.window_input import WindowInput, window


class Layer(nn.Module):
    """Linear attention and feed-forward with residuals (eq. 20),
    with norms before or after them.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        width = config.model_width
        keys = config.heads * config.key_width
        self.query_key_value = nn.Linear(width, 2 * keys + width)
        self.attention_out = nn.Linear(width, width)
        self.feed_forward_in = ClassLinear(width, config.feed_forward, config)
        self.feed_forward_out = nn.Linear(config.feed_forward, width)
        self.attention_norm = nn.LayerNorm(width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.phi = feature_map(config.feature_map)
        self.activation: Activation = ACTIVATIONS[config.activation]
        self.taps = new_conv_weight(config)

    def parallel(
        self,
        x: Tensor,
        s: Tensor | None,
        z: Tensor | None,
        conv: Conv,
        number: int,
        labels: Tensor | None,
        weight: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Return outputs [B, N, D] for x [B, N, D] from the state s [B, H, C, M], z [B, H, C],
        and the final state, which may be left out where none is given; this is layer `number`,
        labels [B] int64. weight: [B, N], how many times each counts for later positions; by
        default once, as for itself always."""
        projected = self._projected(x)
        if s is None:
            attended = causal_attention_of_projection(
                projected, self.config.heads, self.config.key_width, weight
            )
            if attended is not None:
                return (self._finish(x, attended, conv, number, labels),)
        q, k, v = (part.transpose(1, 2) for part in self._split(projected))  # [B, H, N, C | M]
        y, s, z = causal_linear_attention(q, k, v, s, z, weight)
        return self._finish(x, y.transpose(1, 2).flatten(2), conv, number, labels), s, z

    def step(
        self, x: Tensor, s: Tensor, z: Tensor, conv: Conv, number: int, labels: Tensor | None
    ) -> Tensor:
        """Return the output [B, D] for x [B, D] of images with labels [B]; s [B, H, C, M] and
        z [B, H, C] are updated IN PLACE."""
        q, k, v = self._project(x)
        return self._finish(x, recurrent_step(q, k, v, s, z).flatten(1), conv, number, labels)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return phi(q), phi(k) [..., H, C] and v [..., H, M] for x [..., D]."""
        return self._split(self._projected(x))

    def _projected(self, x: Tensor) -> Tensor:
        return self.query_key_value(self.attention_norm(x) if self.config.norm == "pre" else x)

    def _split(self, projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return phi(q), phi(k) [..., H, C] and v [..., H, M] of a projection."""
        config = self.config
        both, v = projected.split((2 * config.heads * config.key_width, config.model_width), dim=-1)
        q, k = self.phi(both).unflatten(-1, (2, config.heads, config.key_width)).unbind(-3)
        return q, k, v.unflatten(-1, (config.heads, config.value_width))

    def _finish(
        self, x: Tensor, attended: Tensor, conv: Conv, number: int, labels: Tensor | None
    ) -> Tensor:
        """Return the layer's output [..., D] from its input x and the
        attention's result, both [..., D].
        """
        x = x + self.attention_out(attended)
        if self.config.norm == "post":
            x = self.attention_norm(x)
            return self.feed_forward_norm(
                x + self._feed_forward(x, nn.Identity(), conv, number, labels)
            )
        return x + self._feed_forward(x, self.feed_forward_norm, conv, number, labels)

    def _feed_forward(
        self, x: Tensor, norm: nn.Module, conv: Conv, number: int, labels: Tensor | None
    ) -> Tensor:
        seen = with_conv(x, norm, self.taps, conv, self.config.blocks + number)
        return self.feed_forward_out(self.activation(self.feed_forward_in(seen, labels)))


class Transformer(nn.Module):
    """Predicts the parameters of the distribution of the next step's
    bytes from the bytes painted so far.
    """

    embedding: Embedding | WindowInput
    class_head: ClassHead | None = None  # of a model directory that has one; not in the state_dict

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.window = window(config) if config.step == "pixel" else None
        self.distribution = distribution(config)
        self.embedding = WindowInput(config) if self.window else Embedding(config)
        self.blocks: Sequence[Block] = nn.ModuleList(Block(config) for _ in range(config.blocks))  # type: ignore[assignment]
        self.layers: Sequence[Layer] = nn.ModuleList(Layer(config) for _ in range(config.layers))  # type: ignore[assignment]
        self.norm = nn.LayerNorm(config.model_width)
        self.head = nn.Linear(config.model_width, self.distribution.width)
        if self.window and config.predicts == "pixel_logistics":
            self.skip = nn.Linear(self.window.linear_inputs, config.channels)
        if config.classes:  # row 0 is an image without a class; at first, all rows are the same
            self.classes = nn.Parameter(torch.zeros(1 + len(config.classes), config.model_width))
        self._initialise()

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    @property
    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def parallel(
        self,
        images: Tensor,
        state: State | None = None,
        stop: int | None = None,
        labels: Tensor | None = None,
    ) -> Tensor:
        """Return parameters [B, n, P] of the n steps of bytes start..stop-1 of images [B, N]
        uint8, each from the bytes before it.

        start is the state's position, which must be the same for all its images; without a state,
        it is the first byte that the network predicts. stop defaults to N. A given state is moved
        to `stop` IN PLACE, and no gradients flow then. labels: [B] int64, as in `step`. ValueError
        where the images are not N bytes, or start..stop-1 is empty, beyond N or not whole steps.
        """
        stop = self.config.bytes if stop is None else stop
        start = self.config.first if state is None else int(state.position[0])
        size = self.config.step_bytes
        whole = start % size == stop % size == 0 or size == 1
        if (
            images.shape[1] != self.config.bytes
            or not start < stop <= self.config.bytes
            or not whole
        ):
            raise ValueError(
                f"cannot run bytes {start} to {stop} of images of {images.shape[1]} bytes"
            )
        position = torch.arange(start, stop, size, device=self.device).unsqueeze(0)
        conv = self._sequence_conv(start, state)
        x, base = self._read_in(images, position, labels, conv)
        for i in range(len(self.layers)):
            x = self._run_layer(i, x, state, conv, labels)
        if state is not None:
            state.position.fill_(stop)
        return self._read_out(x, base)

    def _run_layer(
        self, i: int, x: Tensor, state: State | None, conv: Conv, labels: Tensor | None
    ) -> Tensor:
        """Return the outputs [B, n, D] of layer i for x [B, n, D]; its part of
        a given state is moved IN PLACE.
        """
        if state is None:
            return self.layers[i].parallel(x, None, None, conv, i, labels)[0]
        x, state.s[i], state.z[i] = self.layers[i].parallel(
            x, state.s[i].float(), state.z[i], conv, i, labels
        )
        return x

    def features(self, images: Tensor, shape: FeatureShape) -> Tensor:
        """Return the features [B, F] float32 of images [B, N] uint8, read without a class."""
        return self._features(images, shape, None, self.config.first, self.config.bytes)

    def _features(
        self, images: Tensor, shape: FeatureShape, state: State | None, start: int, stop: int
    ) -> Tensor:
        """Return what bytes start..stop-1 add to the features of images; from
        a state, which is moved IN PLACE.
        """
        position = torch.arange(start, stop, self.config.step_bytes, device=self.device)
        conv = self._sequence_conv(start, state)
        outputs = [self._read_in(images, position.unsqueeze(0), None, conv)[0]]
        for i in range(max(shape.layers)):
            outputs.append(self._run_layer(i, outputs[-1], state, conv, None))
        return shape.averages(self.config, outputs, start)

    def class_reading(self, image: Tensor) -> ClassReading:
        """Return the reading of an image [1, N] uint8 by the class head, which
        there must be, before its first step.
        """
        assert self.class_head is not None
        state = State.zeros(self.config, 1, self.device)
        features = torch.zeros(1, self.class_head.shape.count(self.config), device=self.device)
        return ClassReading(image, state, self.config.first, features)

    def read_class(self, reading: ClassReading) -> Tensor | None:
        """Read the next steps, IN PLACE; return the logits [1,
        K] float32 once there are no more.
        """
        head = self.class_head
        assert head is not None
        start = reading.position
        stop = min(start + READ_STEPS[self.device.type] * self.config.step_bytes, self.config.bytes)
        reading.features += self._features(reading.image, head.shape, reading.state, start, stop)
        reading.position = stop
        return head.logits(reading.features) if stop == self.config.bytes else None

    def class_logits(self, images: Tensor) -> Tensor:
        """Return the logits [n, K] float32 of images [n, N] uint8 by the class head, which there
        must be: of each image by itself, since a product of another shape may round differently."""

        def logits_of(image: Tensor) -> Tensor:
            reading = self.class_reading(image)
            while (logits := self.read_class(reading)) is None:
                pass
            return logits

        return torch.cat(in_threads(images.split(1), logits_of, images.device))

    def _sequence_conv(self, start: int, state: State | None) -> Conv:
        """Return the causal convolution of a sequence from byte `start` on; a
        given state is changed IN PLACE.
        """

        def conv(x: Tensor, norm: nn.Module, conv_weight: Tensor, number: int) -> Tensor:
            if state is None and isinstance(norm, nn.LayerNorm):
                return normed_causal_conv(x, norm.weight, norm.bias, conv_weight, self.config.width)
            conv_state = None if state is None else state.conv_state[number]
            return causal_conv(
                norm(x), conv_weight, start // self.config.channels, self.config.width, conv_state
            )

        return conv

    def sampled(
        self, images: Tensor, position: Tensor, weight: Tensor, labels: Tensor | None = None
    ) -> Tensor:
        """Return parameters [B, n, P] of the steps at `position` [B, n] int64, ascending, of
        images [B, N] uint8, each standing for `weight` [B, n] steps, none where that is 0: an
        estimate of `parallel` from fewer steps, for training a model without a causal convolution.
        labels: [B] int64, as in `step`."""

        def conv(x: Tensor, norm: nn.Module, conv_weight: Tensor, number: int) -> Tensor:
            raise ValueError("a model with a causal convolution needs all steps of an image")

        x, base = self._read_in(images, position * self.config.step_bytes, labels, conv)
        for i, layer in enumerate(self.layers):
            x, *_ = layer.parallel(x, None, None, conv, i, labels, weight)
        return self._read_out(x, base)

    def step(self, images: Tensor, state: State, labels: Tensor | None = None) -> Tensor:
        """Return parameters [B, P] for the step of images [B, N] uint8 at each image's own
        position. labels: [B] int64, 0 for an image without a class and k + 1 for one of class k;
        None where all are 0. A model without classes does not read them. Updates `state` IN PLACE:
        s and z of every layer, and the position moves by the bytes of a step. The position of a
        finished image stays at N, and its parameters have no meaning."""
        length = self.config.bytes
        size = self.config.step_bytes
        position = state.position.clamp(max=length - size)
        conv = self.step_conv(position, state.conv_state)
        x, base = self._read_in(images, position.unsqueeze(1), labels, conv)
        x = x.squeeze(1)
        for i, layer in enumerate(self.layers):
            x = layer.step(x, state.s[i], state.z[i], conv, i, labels)
        state.position.add_(size).clamp_(max=length)
        return self._read_out(x.unsqueeze(1), base).squeeze(1)

    def step_conv(self, position: Tensor, conv_state: Tensor) -> Conv:
        """Return the causal convolution of a step at `position` [B]; `conv_state`
        [E, B, R, D] is changed IN PLACE.
        """
        pixel = position // self.config.channels

        def conv(x: Tensor, norm: nn.Module, conv_weight: Tensor, number: int) -> Tensor:
            rows = norm(x).view(len(pixel), -1)  # of blocks [B, 1, D], of layers [B, D]
            return causal_conv_step(
                rows, conv_weight, pixel, self.config.width, conv_state[number]
            ).view(x.shape)

        return conv

    def bits(self, parameters: Tensor, images: Tensor, start: int, stop: int) -> Tensor:
        """Return the cost [B, stop - start] in bits, float64, of bytes start..stop-1 of images [B,
        N] uint8 under the parameters [B, n, P] of their steps."""
        values = images[:, start:stop].unflatten(1, (-1, self.config.step_bytes))
        return -self.distribution.log_prob(parameters, values).double().flatten(1) / LN2

    def _read_in(
        self, images: Tensor, position: Tensor, labels: Tensor | None, conv: Conv
    ) -> tuple[Tensor, Tensor | None]:
        """Return x [B, n, D], the layers' input at positions [B or 1, n] of
        images [B, N] with labels [B], and the base [B, n, C] that is added to the
        means of pixel logistics, or None."""
        if self.window is None:
            return self._with_class(self.embedding(images, position), labels), None
        pixel = position // self.config.channels
        inputs, reference = self.window.read(images, pixel)
        x = self._with_class(self.embedding(inputs, pixel), labels)
        for i, block in enumerate(self.blocks):
            x = block(x, conv, i, labels)
        if self.config.predicts != "pixel_logistics":
            return x, None
        with torch.autocast(x.device.type, enabled=False):
            return x, reference + self._skipped(inputs[..., : self.window.linear_inputs])

    def _with_class(self, x: Tensor, labels: Tensor | None) -> Tensor:
        """Return x [B, n, D] with the vectors of the images' labels [B]
        added, where the model has classes.
        """
        if not self.config.classes:
            return x
        return x + (
            self.classes[0] if labels is None else F.embedding(labels, self.classes).unsqueeze(1)
        )

    def _skipped(self, inputs: Tensor) -> Tensor:
        """Return `skip` of inputs [B, n, .], [B, n, C], with the pixels as columns of the
        product: as its rows, with few outputs each, the rounding of a pixel's sums would
        depend on its place in the batch."""
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
            k = self.config.components
            c = self.config.channels
            logits, means, rest = parameters.split(
                (k, k * c, parameters.shape[-1] - k - k * c), dim=-1
            )
            return torch.cat((logits, means + base.repeat(1, 1, k), rest), dim=-1)

    def _initialise(self) -> None:
        """Draw weights as GPT-2 does: N(0, 0.02), and less with depth for products that end
        in a residual; residual blocks start as the identity, classes as zeros. Of the
        mixture, no two components start equal."""
        if self.head.weight.is_meta:  # a model that is built for its shapes alone
            return
        for name, parameter in self.named_parameters():
            if name.endswith(("bias", "taps")):
                nn.init.zeros_(parameter)
            elif "norm" not in name and not name.startswith(("embedding", "blocks", "classes")):
                residual = name.endswith(("attention_out.weight", "feed_forward_out.weight"))
                nn.init.normal_(
                    parameter, std=0.02 / math.sqrt(2 * self.config.layers) if residual else 0.02
                )
        for block in self.blocks:
            nn.init.zeros_(block.contract.weight)
        with torch.no_grad():
            if self.config.predicts == "logistics":
                self._spread_logistics()
            elif self.config.predicts == "pixel_logistics":
                self._spread_pixel_logistics()

    def _spread_logistics(self) -> None:
        """Spread the means over the range of a byte."""
        components = self.config.components
        self.head.bias[components : 2 * components] = torch.linspace(-1, 1, components)
        self.head.bias[2 * components :] = -2.0

    def _spread_pixel_logistics(self) -> None:
        """Start the means at the reference, scales from narrow to wide, and
        each channel at the one before it.
        """
        k = self.config.components
        c = self.config.channels
        _, means, scales, factors = self.head.bias.split(
            (k, k * c, k * c, self.distribution.width - k - 2 * k * c)
        )
        scales.copy_(torch.linspace(-4.5, -1.0, k).repeat_interleave(c))
        if c == 3:
            factors.copy_(torch.tensor([1.0, 0.0, 1.0]).repeat(k))
        nn.init.zeros_(self.skip.weight)
        if not self.config.window_centred:
            means.copy_(torch.linspace(-1, 1, k).repeat_interleave(c))


def first_byte_bits(config: ModelConfig, values: Tensor) -> Tensor:
    """Return the bits [B] float64 of first bytes `values` [B] under the
    histogram of a model without start token.
    """
    histogram = torch.tensor(config.first_byte_histogram, dtype=torch.float64, device=values.device)
    return -histogram[values.long()].log2()


def with_first_byte(config: ModelConfig, images: Tensor, predicted: Tensor) -> Tensor:
    """Return the bits [B, N] of all bytes, given those [B, N - first] that the network predicts."""
    if not config.first:
        return predicted
    return torch.cat((first_byte_bits(config, images[:, 0]).unsqueeze(1), predicted), dim=1)
