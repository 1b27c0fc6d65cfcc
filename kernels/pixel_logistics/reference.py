"""Distribution of the C bytes of a step: one mixture of K discretised logistics, whose channels are
conditioned on each other (Salimans et al., "PixelCNN++", 2017, section 2.2). With one channel it is
the paper's distribution of a byte (section 4.2). Log-probability and sampling share `_split` and
`_mean`, so that what is sampled is what was trained.

A byte x has the value x / 127.5 - 1; its bin reaches half a step to either side, and the first and
the last bin take the tails. Within a component, the mean of a channel is moved by what the pixel's
earlier channels were, relative to their own means, times coefficients that the network predicts:
green's by a (R - mu_R), blue's by b (R - mu_R) + c (G - mu_G).

Parameters of C channels are [..., K + 2 K C + K C (C - 1) / 2]: K logits; K x C means; K x C raw
scales; K x C (C - 1) / 2 coefficients, for colour (a, b, c).

A guided byte is drawn as a categorical one, from the logarithms of the probabilities of its 256
values in two mixtures, one with the class and one without.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from scanline.kernels.categorical.reference import VALUES, Categorical, guided, pick

LOG_SCALE_FLOOR = -7.0
HALF_BIN = 1 / 255
# Of a guided byte: a probability below it counts as it. Far from all means logarithms differ
# without bound, and mixed they would choose the byte.
MIN_PROBABILITY = 2.0**-40
SCALES = ("exp", "elu")


@dataclass(frozen=True)
class PixelLogistics:
    """The distribution of the `channels` bytes of a step, by `components` logistics.

    scale: "exp" (floored at e^-7, as the authors' loss) or "elu"
    (elu(x) + 1.0001, as their sampler).
    """

    components: int
    channels: int
    scale: str = "exp"

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise ValueError(
                f"unknown scale parametrisation {self.scale!r}; known: {', '.join(SCALES)}"
            )

    @property
    def width(self) -> int:
        """Number of parameters of a step."""
        return self.components * (1 + 2 * self.channels + self.coefficients)

    @property
    def coefficients(self) -> int:
        """Number of coefficients of a component."""
        return self.channels * (self.channels - 1) // 2

    def log_prob(self, parameters: Tensor, values: Tensor) -> Tensor:
        """Return the natural log-probability [..., C] of each of a pixel's bytes
        `values` [..., C] given its earlier ones, under `parameters` [..., width]:
        differences of the log-sums over components."""
        logits, means, scales, coefficients = self._split(parameters)
        # log-weight of each component, times what it gave the earlier bytes
        weights = F.log_softmax(logits, dim=-1)
        earlier = torch.zeros_like(weights[..., 0])  # log-probability of the earlier bytes
        log_probs = []
        seen = values.float() / 127.5 - 1
        for channel in range(self.channels):
            mean = self._mean(channel, means, coefficients, seen)
            weights = weights + log_bin(values[..., channel, None], mean, scales[..., channel])
            with_this = torch.logsumexp(weights, dim=-1)
            log_probs.append(with_this - earlier)
            earlier = with_this
        return torch.stack(log_probs, dim=-1)

    def sample(
        self,
        parameters: Tensor,
        uniforms: Tensor,
        temperature: Tensor,
        values: Tensor,
        known: Tensor,
    ) -> Tensor:
        """Return the bytes [..., C] uint8 of a pixel for each row of `parameters` [..., width];
        where `known` [..., C], those of `values` [..., C].

        Channel by channel: the first of the byte's uniforms [..., C, 2] picks a component by its
        weight given the earlier bytes, painted or known, and the second inverts its logistic.
        temperature [...] > 0 divides the logits and multiplies the scales.
        """
        logits, means, scales, coefficients = self._split(parameters)
        temperature = temperature.unsqueeze(-1)
        scales = scales * temperature.unsqueeze(-1)
        weights = logits / temperature
        painted: list[Tensor] = []
        seen = torch.zeros_like(means[..., 0, :])
        for channel in range(self.channels):
            mean = self._mean(channel, means, coefficients, seen)
            scale = scales[..., channel]
            # A component by its weight, and a value from its
            # logistic, inverted at the second uniform.
            picked = pick(torch.softmax(weights, dim=-1), uniforms[..., channel, :1])
            u = uniforms[..., channel, 1:]
            standard = u.log() - (-u).log1p()
            drawn = mean.gather(-1, picked) + scale.gather(-1, picked) * standard
            byte = ((drawn + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)
            byte = torch.where(known[..., channel, None], values[..., channel, None], byte)
            painted.append(byte)
            # What each component gives the byte decides the components of the later ones.
            weights = weights + log_bin(byte, mean, scale)
            seen = _with_byte(seen, channel, byte)
        return torch.cat(painted, dim=-1)

    def sample_guided(
        self,
        with_class: Tensor,
        without: Tensor,
        guidance: Tensor,
        uniforms: Tensor,
        temperature: Tensor,
        values: Tensor,
        known: Tensor,
    ) -> Tensor:
        """Return bytes as `sample` does, of images guided by `guidance` [...], from parameters
        [..., width] with the class and without.

        Channel by channel: the logarithms of the probabilities of all 256 values given the earlier
        bytes, in each of both mixtures, are mixed as logits, and divided by the temperature. The
        first uniform picks the value; the second is not used. What each component gives the byte
        then changes the weights of both mixtures.
        """
        logits, means, scales, coefficients = self._split(torch.stack((with_class, without)))
        weights = F.log_softmax(logits, dim=-1)
        all_values = torch.arange(VALUES, device=logits.device).unsqueeze(-1)
        least = math.log(MIN_PROBABILITY)
        painted: list[Tensor] = []
        seen = torch.zeros_like(means[0, ..., 0, :])
        for channel in range(self.channels):
            mean = self._mean(channel, means, coefficients, seen)
            scale = scales[..., channel]
            bins = log_bin(all_values, mean.unsqueeze(-2), scale.unsqueeze(-2))  # [2, ..., 256, K]
            logs = torch.logsumexp(weights.unsqueeze(-2) + bins, dim=-1)
            logs = logs.clamp(min=least)
            this = slice(channel, channel + 1)
            byte = Categorical().sample(
                guided(logs[0], logs[1], guidance),
                uniforms[..., this, :],
                temperature,
                values[..., this],
                known[..., this],
            )
            painted.append(byte)
            weights = F.log_softmax(weights + log_bin(byte, mean, scale), dim=-1)
            seen = _with_byte(seen, channel, byte)
        return torch.cat(painted, dim=-1)

    def _split(self, parameters: Tensor) -> tuple[Tensor, ...]:
        """Return logits [..., K], means and scales [..., K, C], coefficients [..., K, C (C - 1) /
        2], float32."""
        k = self.components
        c = self.channels
        sizes = (k, k * c, k * c, k * self.coefficients)
        logits, means, raw, coefficients = parameters.float().split(sizes, dim=-1)
        if self.scale == "exp":
            scales = raw.clamp(min=LOG_SCALE_FLOOR).exp()
        else:
            scales = F.elu(raw) + 1.0001
        if self.coefficients:
            coefficients = coefficients.unflatten(-1, (k, self.coefficients))
        return logits, means.unflatten(-1, (k, c)), scales.unflatten(-1, (k, c)), coefficients

    def _mean(self, channel: int, means: Tensor, coefficients: Tensor, seen: Tensor) -> Tensor:
        """Return the means [..., K] of a channel, given the values `seen` [..., C] of the earlier
        ones."""
        mean = means[..., channel]
        first = channel * (channel - 1) // 2
        for earlier in range(channel):
            error = seen[..., None, earlier] - means[..., earlier]
            mean = mean + coefficients[..., first + earlier] * error
        return mean


def _with_byte(seen: Tensor, channel: int, byte: Tensor) -> Tensor:
    """Return `seen` [..., C] with the value of a channel's byte [..., 1]."""
    value = byte.float() / 127.5 - 1
    return torch.cat((seen[..., :channel], value, seen[..., channel + 1 :]), dim=-1)


def log_bin(values: Tensor, means: Tensor, scales: Tensor) -> Tensor:
    """Return the natural logarithm [..., K] of the probability that each
    logistic gives the bytes `values` [..., 1].

    sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b)), each factor of which has a
    stable logarithm; the outer bins drop the factors that the tails make 1.
    """
    is_black = values == 0
    is_white = values == 255
    centred = values.float() / 127.5 - 1 - means
    inner = F.logsigmoid((centred + HALF_BIN) / scales).masked_fill(is_white, 0.0)
    outer = F.logsigmoid((HALF_BIN - centred) / scales).masked_fill(is_black, 0.0)
    width = torch.log(-torch.expm1(-2 * HALF_BIN / scales))
    width = width.masked_fill(is_black | is_white, 0.0)
    return inner + outer + width
