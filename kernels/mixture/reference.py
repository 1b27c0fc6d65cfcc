"""The output distribution: a mixture of K discretised logistics over a byte (section 4.2; Salimans et
al., "PixelCNN++", 2017). Log-probability and sampling share `_split`, so that what is sampled is what
was trained.

A byte x has the value x / 127.5 - 1; its bin reaches half a step to either side, and the first and the last
bin take the tails. Parameters are [..., 3K]: logits, means, raw scales, in that order.
"""

import math

import torch
import torch.nn.functional as F

LN2 = math.log(2)
LOG_SCALE_FLOOR = -7.0
HALF_BIN = 1 / 255


def _split(parameters: torch.Tensor, scale: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns logits, means and scales, each [..., K], float32. `scale`: "exp" (floored at e^-7, as the authors'
    loss) or "elu" (elu(x) + 1.0001, as their sampler)."""
    logits, means, raw = parameters.float().chunk(3, dim=-1)
    if scale == "exp":
        return logits, means, raw.clamp(min=LOG_SCALE_FLOOR).exp()
    if scale == "elu":
        return logits, means, F.elu(raw) + 1.0001
    raise ValueError(f"unknown scale parametrisation {scale!r}; known: elu, exp")


def log_prob(parameters: torch.Tensor, values: torch.Tensor, scale: str) -> torch.Tensor:
    """Returns the natural log-probability [...] of the bytes `values` [...] under `parameters` [..., 3K].

    sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b)), each factor of which has a stable
    logarithm; the outer bins drop the factors that the tails make 1.
    """
    logits, means, scales = _split(parameters, scale)
    values = values.unsqueeze(-1)
    centred = values.float() / 127.5 - 1 - means
    inner = F.logsigmoid((centred + HALF_BIN) / scales).masked_fill(values == 255, 0.0)
    outer = F.logsigmoid((HALF_BIN - centred) / scales).masked_fill(values == 0, 0.0)
    width = torch.log(-torch.expm1(-2 * HALF_BIN / scales)).masked_fill((values == 0) | (values == 255), 0.0)
    return torch.logsumexp(F.log_softmax(logits, dim=-1) + inner + outer + width, dim=-1)


def bits(parameters: torch.Tensor, values: torch.Tensor, scale: str) -> torch.Tensor:
    """Returns the cost [...] in bits, float64, of the bytes `values` [...]: -log2 of their probability."""
    return -log_prob(parameters, values, scale).double() / LN2


def sample(parameters: torch.Tensor, uniforms: torch.Tensor, temperature: torch.Tensor, scale: str) -> torch.Tensor:
    """Returns one byte [...] (uint8) for each row of `parameters` [..., 3K].

    uniforms [..., 2] in (0, 1): the first picks the component, the second inverts its logistic.
    temperature [...] > 0 divides the logits and multiplies the scales; 1 is the model itself.
    """
    logits, means, scales = _split(parameters, scale)
    temperature = temperature.unsqueeze(-1)
    cumulative = torch.softmax(logits / temperature, dim=-1).cumsum(dim=-1)
    picked = (uniforms[..., :1] * cumulative[..., -1:] >= cumulative).sum(dim=-1, keepdim=True)
    picked = picked.clamp(max=logits.shape[-1] - 1)
    mean, scale_ = means.gather(-1, picked), scales.gather(-1, picked)
    u = uniforms[..., 1:]
    value = mean + scale_ * temperature * (u.log() - (-u).log1p())
    return ((value + 1) * 127.5).round().clamp(0, 255).squeeze(-1).to(torch.uint8)
