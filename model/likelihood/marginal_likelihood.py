"""The marginal likelihood of the known pixels of an image: the sum of p(image)
over all contents of the hidden ones.

A completion by sequential Monte Carlo estimates it without bias (Del Moral, "Feynman-Kac Formulae",
2004, theorem 7.4.2): the mean of 2^-evidence over independent completions tends to p(known) with
any number of candidates. The arithmetic is numpy's, for processes without torch.
"""

from dataclasses import dataclass
from math import inf, isinf, log2, sqrt

import numpy as np

from scanline.model.base.inputs import InvalidInput, whole_number

DEFAULT_REPEATS = 8
# one has no standard error
MIN_REPEATS = 2
MAX_REPEATS = 256


@dataclass(frozen=True)
class Estimate:
    """An estimate of -log2 p(known pixels) from several completions."""

    bits: float  # infinite where no completion found the known pixels possible
    # of bits, to first order; 0 where no known byte follows a hidden one, and bits is exact
    standard_error: float
    known_bytes: int

    @property
    def bits_per_dim(self) -> float:
        """Bits of a known byte."""
        return self.bits / self.known_bytes if self.known_bytes else 0.0

    @property
    def standard_error_per_dim(self) -> float:
        """The standard error of bits_per_dim."""
        return self.standard_error / self.known_bytes if self.known_bytes else 0.0


def estimate(evidence_bits: np.ndarray, known_bytes: int) -> Estimate:
    """Return the estimate from the evidence of R completions of one image and
    mask, [R] float64, R of at least 2.

    Its bits are -log2 of the mean of 2^-evidence, its standard error that of the jackknife (Efron
    and Stein, 1981). Where the evidence of completions differs by many bits, one of them decides
    the mean. The estimate is then too high on average; its standard error is still the spread of
    such estimates, which the variance of 2^-evidence is not.
    """
    count = len(evidence_bits)
    bits = _bits(evidence_bits)
    without = np.array([_bits(np.delete(evidence_bits, index)) for index in range(count)])
    if np.isinf(without).any():
        return Estimate(bits, inf, known_bytes)
    return Estimate(
        bits, sqrt((count - 1) / count * float(((without - bits) ** 2).sum())), known_bytes
    )


def _bits(evidence_bits: np.ndarray) -> float:
    """Return -log2 of the mean of 2^-evidence, [R] float64."""
    least = float(evidence_bits.min())
    return least if isinf(least) else least - log2(float(np.exp2(least - evidence_bits).mean()))


def check_known(known_bytes: int, param: str) -> None:
    """Raise InvalidInput, about the parameter that says what is known, where nothing is."""
    if not known_bytes:
        raise InvalidInput(
            f"{param} leaves nothing known, so that there is nothing to measure.",
            param,
            "invalid_mask",
        )


def check_repeats(repeats: int) -> int:
    """Return how many completions an estimate has; InvalidInput where they give no standard error
    or are too many."""
    return whole_number(repeats, MIN_REPEATS, MAX_REPEATS, "repeats")
