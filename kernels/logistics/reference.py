"""The output distribution: a mixture of K discretised logistics over a byte (section 4.2; Salimans et
al., "PixelCNN++", 2017). Log-probability and sampling share `_split`, so that what is sampled is what
was trained.

A byte x has the value x / 127.5 - 1; its bin reaches half a step to either side, and the first and the last
bin take the tails. Parameters are [..., 3K]: logits, means, raw scales, in that order.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

LN2 = math.log(2)
LOG_SCALE_FLOOR = -7.0
HALF_BIN = 1 / 255


@dataclass(frozen=True)
class Logistics:
    """The distribution of one byte a step. `scale`: "exp" (floored at e^-7, as the authors' loss) or "elu"
    (elu(x) + 1.0001, as their sampler)."""

    components: int
    scale: str = "exp"

    def __post_init__(self) -> None:
        if self.scale not in ("exp", "elu"):
            raise ValueError(f"unknown scale parametrisation {self.scale!r}; known: elu, exp")

    @property
    def width(self) -> int:
        """Number of parameters of a step."""
        return 3 * self.components

    def log_prob(self, parameters: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Return the natural log-probability [..., 1] of the bytes `values` [..., 1] under `parameters` [..., 3K]."""
        logits, means, scales = self._split(parameters)
        each = F.log_softmax(logits, dim=-1) + log_bin(values, means, scales)
        return torch.logsumexp(each, dim=-1, keepdim=True)

    def sample(
        self,
        parameters: torch.Tensor,
        uniforms: torch.Tensor,
        temperature: torch.Tensor,
        values: torch.Tensor,
        known: torch.Tensor,
    ) -> torch.Tensor:
        """Return bytes [..., 1] uint8, one for each row of `parameters` [..., 3K]; where `known`, those of `values`.

        uniforms [..., 1, 2] in (0, 1): the first picks the component, the second inverts its logistic.
        temperature [...] > 0 divides the logits and multiplies the scales; 1 is the model itself.
        """
        logits, means, scales = self._split(parameters)
        temperature = temperature.unsqueeze(-1)
        cumulative = torch.softmax(logits / temperature, dim=-1).cumsum(dim=-1)
        picked = (uniforms[..., 0, :1] * cumulative[..., -1:] >= cumulative).sum(dim=-1, keepdim=True)
        picked = picked.clamp(max=logits.shape[-1] - 1)
        mean, scale_ = means.gather(-1, picked), scales.gather(-1, picked)
        u = uniforms[..., 0, 1:]
        value = mean + scale_ * temperature * (u.log() - (-u).log1p())
        painted = ((value + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)
        return torch.where(known, values, painted)

    def _split(self, parameters: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return logits, means and scales, each [..., K], float32."""
        logits, means, raw = parameters.float().chunk(3, dim=-1)
        if self.scale == "exp":
            return logits, means, raw.clamp(min=LOG_SCALE_FLOOR).exp()
        return logits, means, F.elu(raw) + 1.0001


def log_bin(values: torch.Tensor, means: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Return the natural logarithm [..., K] of the probability that each logistic gives the bytes `values` [..., 1].

    sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b)), each factor of which has a stable logarithm; the
    outer bins drop the factors that the tails make 1.
    """
    centred = values.float() / 127.5 - 1 - means
    inner = F.logsigmoid((centred + HALF_BIN) / scales).masked_fill(values == 255, 0.0)
    outer = F.logsigmoid((HALF_BIN - centred) / scales).masked_fill(values == 0, 0.0)
    width = torch.log(-torch.expm1(-2 * HALF_BIN / scales)).masked_fill((values == 0) | (values == 255), 0.0)
    return inner + outer + width
