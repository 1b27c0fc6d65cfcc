"""One network with two views of one set of weights: `parallel` runs a whole sequence (training, scoring, prefill),
`step` runs one byte of many images (painting). Tests check that they agree.

The network keeps no state: `State` is an argument, and each view says what it changes.
"""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import nn

from scanline.kernels.attention import causal_linear_attention
from scanline.kernels.feature_maps import feature_map
from scanline.kernels.mixture.anchors import anchored, candidates
from scanline.kernels.step import recurrent_step
from scanline.model.config import ModelConfig
from scanline.model.network.embedding import Embedding
from scanline.model.state import State

Activation = Callable[[torch.Tensor], torch.Tensor]
ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}


class Layer(nn.Module):
    """Linear attention and feed-forward with residuals (eq. 20), with norms before or after them."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        width, keys = config.model_width, config.heads * config.key_width
        self.query_key_value = nn.Linear(width, 2 * keys + width)
        self.attention_out = nn.Linear(width, width)
        self.feed_forward_in = nn.Linear(width, config.feed_forward)
        self.feed_forward_out = nn.Linear(config.feed_forward, width)
        self.attention_norm = nn.LayerNorm(width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.phi = feature_map(config.feature_map)
        self.activation: Activation = ACTIVATIONS[config.activation]

    def parallel(self, x: torch.Tensor, s: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns outputs [B, N, D] for x [B, N, D] from the state s [B, H, C, M], z [B, H, C], and the final state."""
        q, k, v = (part.transpose(1, 2) for part in self._project(x))  # [B, H, N, C | M]
        y, s, z = causal_linear_attention(q, k, v, s, z)
        return self._finish(x, y.transpose(1, 2).flatten(2)), s, z

    def step(self, x: torch.Tensor, s: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Returns the output [B, D] for x [B, D]; s [B, H, C, M] and z [B, H, C] are updated IN PLACE."""
        q, k, v = self._project(x)
        return self._finish(x, recurrent_step(q, k, v, s, z).flatten(1))

    def _project(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns phi(q), phi(k) [..., H, C] and v [..., H, M] for x [..., D]."""
        config = self.config
        keys = config.heads * config.key_width
        x = self.attention_norm(x) if config.norm == "pre" else x
        both, v = self.query_key_value(x).split((2 * keys, config.model_width), dim=-1)
        q, k = self.phi(both).unflatten(-1, (2, config.heads, config.key_width)).unbind(-3)
        return q, k, v.unflatten(-1, (config.heads, config.value_width))

    def _finish(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Returns the layer's output [..., D] from its input x and the attention's result, both [..., D]."""
        x = x + self.attention_out(attended)
        if self.config.norm == "post":
            x = self.attention_norm(x)
            return self.feed_forward_norm(x + self._feed_forward(x))
        return x + self._feed_forward(self.feed_forward_norm(x))

    def _feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.feed_forward_out(self.activation(self.feed_forward_in(x)))


class Transformer(nn.Module):
    """Predicts the parameters of the mixture for the next byte from the bytes painted so far."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config)
        self.layers: Sequence[Layer] = nn.ModuleList(Layer(config) for _ in range(config.layers))  # type: ignore[assignment]
        self.norm = nn.LayerNorm(config.model_width)
        self.head = nn.Linear(config.model_width, config.head_width)
        self._initialise()

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    @property
    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def parallel(self, images: torch.Tensor, state: State | None = None, stop: int | None = None) -> torch.Tensor:
        """Returns parameters [B, n, 3K] for bytes start..stop-1 of images [B, N] uint8, each from the bytes before it.

        start is the state's position, which must be the same for all its images; without a state, it is the first
        byte that the network predicts. stop defaults to N. A given state is moved to `stop` IN PLACE, and no
        gradients flow then. ValueError where the images are not N bytes or start..stop-1 is empty or beyond N.
        """
        stop = self.config.bytes if stop is None else stop
        start = self.config.first if state is None else int(state.position[0])
        batch = images.shape[0]
        if images.shape[1] != self.config.bytes or not start < stop <= self.config.bytes:
            raise ValueError(f"cannot run bytes {start} to {stop} of images of {images.shape[1]} bytes")
        carried = State.zeros(self.config, batch, self.device) if state is None else state
        position = torch.arange(start, stop, device=self.device).unsqueeze(0)
        x = self.embedding(images, position)
        for i, layer in enumerate(self.layers):
            x, s, z = layer.parallel(x, carried.s[i].float(), carried.z[i])
            if state is not None:
                state.s[i], state.z[i] = s, z
        if state is not None:
            state.position.fill_(stop)
        return self._read_out(x, images, position)

    def step(self, images: torch.Tensor, state: State) -> torch.Tensor:
        """Returns parameters [B, 3K] for the byte of images [B, N] uint8 at each image's own position.

        Updates `state` IN PLACE: s and z of every layer, and position + 1. The position of a finished image stays
        at N, and its parameters have no meaning.
        """
        position = state.position.clamp(max=self.config.bytes - 1).unsqueeze(1)
        x = self.embedding(images, position).squeeze(1)
        for i, layer in enumerate(self.layers):
            x = layer.step(x, state.s[i], state.z[i])
        state.position.add_(1).clamp_(max=self.config.bytes)
        return self._read_out(x.unsqueeze(1), images, position).squeeze(1)

    def _read_out(self, x: torch.Tensor, images: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Returns parameters [B, n, 3K] for x [B, n, D]; in float32 even under autocast, since bfloat16 rounds a mean
        near 1 to a whole byte."""
        with torch.autocast(x.device.type, enabled=False):
            raw = self.head(self.norm(x.float()))
            if not self.config.anchors:
                return raw
            return anchored(
                raw, *candidates(images, position, self.config.width, self.config.channels), self.config.components
            )

    def _initialise(self) -> None:
        """Draws weights as GPT-2 does: N(0, 0.02), and less with depth for products that end in a residual. The means
        of the mixture are spread over the range, or closely around their anchor, so that no two start equal."""
        if self.head.weight.is_meta:  # a model that is built for its shapes alone
            return
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif "norm" not in name and "embedding" not in name:
                residual = name.endswith(("attention_out.weight", "feed_forward_out.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * self.config.layers) if residual else 0.02)
        with torch.no_grad():
            components = self.config.components
            reach, scale = (0.1, -3.0) if self.config.anchors else (1.0, -2.0)
            self.head.bias[components : 2 * components] = torch.linspace(-reach, reach, components)
            self.head.bias[2 * components : 3 * components] = scale


def first_byte_bits(config: ModelConfig, values: torch.Tensor) -> torch.Tensor:
    """Return the bits [B] float64 of first bytes `values` [B] under the histogram of a model without start token."""
    histogram = torch.tensor(config.first_byte_histogram, dtype=torch.float64, device=values.device)
    return -histogram[values.long()].log2()


def with_first_byte(config: ModelConfig, images: torch.Tensor, predicted: torch.Tensor) -> torch.Tensor:
    """Return the bits [B, N] of all bytes, given those [B, N - first] that the network predicts."""
    if not config.first:
        return predicted
    return torch.cat((first_byte_bits(config, images[:, 0]).unsqueeze(1), predicted), dim=1)
