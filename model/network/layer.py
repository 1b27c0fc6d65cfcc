"""A layer of the transformer, eq. 20 of the paper: linear attention over all earlier steps, then a
feed-forward network, both with residuals.

`parallel` computes all steps of a sequence at once (eq. 8-12), `resumed` many of them from the
state (s, z) that earlier ones left, `step` one (eq. 18-19). They share the projections before the
attention and all that comes after it.
"""

from torch import Tensor, nn

from scanline.kernels.attention import causal_attention_of_projection, causal_linear_attention
from scanline.kernels.feature_maps import feature_map
from scanline.kernels.step import recurrent_step
from scanline.model.base.config import ModelConfig
from scanline.model.network.block import (
    ACTIVATIONS,
    Activation,
    ClassLinear,
    Conv,
    new_conv_weight,
    with_conv,
)


class Layer(nn.Module):
    """D -> D, with norms before or after the residuals; its convolution is number `conv_number` of
    the network."""

    def __init__(self, config: ModelConfig, conv_number: int) -> None:
        super().__init__()
        self.config = config
        self.conv_number = conv_number
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
        x: Tensor,  # [B, N, D]
        conv: Conv,
        labels: Tensor | None,  # [B] int64
        weight: Tensor | None = None,  # [B, N]
    ) -> Tensor:
        """Return the outputs [B, N, D] of a sequence from its beginning.

        weight: how many times each position counts for later ones; by default once, as for itself
        always.
        """
        config = self.config
        projected = self._project(x)
        # In training on a GPU, one operator is both the feature map and the attention.
        attended = causal_attention_of_projection(projected, config.heads, config.key_width, weight)
        if attended is None:
            attended, _, _ = self._attend(projected, None, None, weight)
        return self._finish(x, attended, conv, labels)

    def resumed(
        self,
        x: Tensor,  # [B, n, D]
        s: Tensor,  # [B, H, C, M]
        z: Tensor,  # [B, H, C]
        conv: Conv,
        labels: Tensor | None,  # [B] int64
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the outputs [B, n, D] of a sequence that goes on from the state s, z, and the
        state after it."""
        attended, s, z = self._attend(self._project(x), s, z)
        return self._finish(x, attended, conv, labels), s, z

    def step(
        self,
        x: Tensor,  # [B, D]
        s: Tensor,  # [B, H, C, M], changed in place
        z: Tensor,  # [B, H, C], changed in place
        conv: Conv,
        labels: Tensor | None,  # [B] int64
    ) -> Tensor:
        """Return the output [B, D]; s and z are updated IN PLACE."""
        phi_q, phi_k, v = self._split(self._project(x))
        y = recurrent_step(phi_q, phi_k, v, s, z)  # [B, H, M]
        return self._finish(x, y.flatten(1), conv, labels)

    def _project(self, x: Tensor) -> Tensor:
        """Return x [..., D] times W_Q, W_K and W_V, side by side: [..., 2 H C + D]."""
        if self.config.norm == "pre":
            x = self.attention_norm(x)
        return self.query_key_value(x)

    def _attend(
        self, projected: Tensor, s: Tensor | None, z: Tensor | None, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the attention's result [B, N, D] and the state after it."""
        phi_q, phi_k, v = (part.transpose(1, 2) for part in self._split(projected))
        y, s, z = causal_linear_attention(phi_q, phi_k, v, s, z, weight)  # y [B, H, N, M]
        return y.transpose(1, 2).flatten(2), s, z

    def _split(self, projected: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return phi(q), phi(k) [..., H, C] and v [..., H, M] of a projection."""
        config = self.config
        keys = config.heads * config.key_width
        queries_keys, v = projected.split((2 * keys, config.model_width), dim=-1)
        features = self.phi(queries_keys).unflatten(-1, (2, config.heads, config.key_width))
        phi_q, phi_k = features.unbind(-3)
        return phi_q, phi_k, v.unflatten(-1, (config.heads, config.value_width))

    def _finish(self, x: Tensor, attended: Tensor, conv: Conv, labels: Tensor | None) -> Tensor:
        """Return the layer's output [..., D] from its input x and the attention's result, both
        [..., D]: f_l of eq. 20, around the residual."""
        x = x + self.attention_out(attended)
        if self.config.norm == "pre":
            return x + self._feed_forward(x, self.feed_forward_norm, conv, labels)
        x = self.attention_norm(x)
        return self.feed_forward_norm(x + self._feed_forward(x, nn.Identity(), conv, labels))

    def _feed_forward(
        self, x: Tensor, norm: nn.Module, conv: Conv, labels: Tensor | None
    ) -> Tensor:
        normed = with_conv(x, norm, self.taps, conv, self.conv_number)
        return self.feed_forward_out(self.activation(self.feed_forward_in(normed, labels)))
