"""A byte's distribution as 256 probabilities, for images of drawn strokes: mostly black, white, and
greys that follow no smooth curve. Parameters are [..., 256] logits; `log_prob` and `sample` read
the same softmax."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

VALUES = 256


def guided(with_class: Tensor, without: Tensor, guidance: Tensor) -> Tensor:
    """Return the logits [..., 256] that a guided byte is drawn from: u + w (c - u), c being those
    with the class, u those without and w the guidance [...].

    Source: classifier-free guidance, Ho and Salimans 2022, eq. 6, there of scores, here of logits.
    """
    return without + guidance.unsqueeze(-1) * (with_class - without)


def range_bits(parameters: np.ndarray, values: np.ndarray, tolerances: np.ndarray) -> np.ndarray:
    """Return the bits [B, n] float64 of bytes that are known to within `tolerances` [B]: of all
    that differ no more from `values` [B, n] uint8, under `parameters` [B, n, 256]. numpy's: no
    image's bits depend on the others."""
    all_values = np.arange(VALUES, dtype=np.int16)
    away = np.abs(all_values - values[..., None].astype(np.int16))
    excluded = away > tolerances[:, None, None].astype(np.int16)
    # of values that are ruled out; of numbers that are not finite
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = parameters.astype(np.float64)
        weights -= weights.max(axis=-1, keepdims=True)
        np.exp(weights, out=weights)
        total = weights.sum(axis=-1)
        weights[excluded] = 0.0
        within = weights.sum(axis=-1)
        return np.asarray(np.log2(total) - np.log2(within))


def pick(weights: Tensor, uniform: Tensor) -> Tensor:
    """Return which of the values with `weights` [..., n] the uniform [..., 1] picks, int64 [...,
    1]."""
    cumulative = weights.cumsum(dim=-1)
    target = uniform * cumulative[..., -1:]
    picked = (target >= cumulative).sum(dim=-1, keepdim=True)
    return picked.clamp(max=weights.shape[-1] - 1)  # the target may round up to the sum of all


@dataclass(frozen=True)
class Categorical:
    """The distribution of one byte a step."""

    @property
    def width(self) -> int:
        """Number of parameters of a step."""
        return VALUES

    def log_prob(self, parameters: Tensor, values: Tensor) -> Tensor:
        """Return the natural log-probability [..., 1] of the bytes `values` [..., 1] under
        `parameters` [..., 256]."""
        logs = F.log_softmax(parameters.float(), dim=-1)
        return logs.gather(-1, values.long())

    def sample(
        self,
        parameters: Tensor,
        uniforms: Tensor,
        temperature: Tensor,
        values: Tensor,
        known: Tensor,
    ) -> Tensor:
        """Return bytes [..., 1] uint8, one for each row of `parameters` [...,
        256]; where `known`, those of `values`.

        uniforms [..., 1, 2] in (0, 1): the first picks the value, the second is not used.
        temperature [...] > 0 divides the logits.
        """
        logits = parameters.float() / temperature.unsqueeze(-1)
        picked = pick(torch.softmax(logits, dim=-1), uniforms[..., 0, :1])
        return torch.where(known, values, picked.to(torch.uint8))

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
        """Return bytes as `sample` does, of images guided by `guidance` [...], from logits [...,
        256] with the class and without."""
        return self.sample(
            guided(with_class, without, guidance), uniforms, temperature, values, known
        )
