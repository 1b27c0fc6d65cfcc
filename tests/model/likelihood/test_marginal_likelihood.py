"""Estimates of -log2 p(known pixels) from the evidence of several completions."""

import math

import numpy as np
import pytest

from scanline.model.inputs import InvalidInput
from scanline.model.likelihood.marginal_likelihood import check_repeats, estimate


def test_the_estimate_is_the_logarithm_of_the_mean_probability() -> None:
    found = estimate(np.array([1.0, 2.0, 2.0, np.inf]), known_bytes=5)
    assert found.bits == pytest.approx(2.0)  # the mean of 1/2, 1/4, 1/4 and 0 is 1/4
    assert found.bits_per_dim == pytest.approx(0.4)
    shifted = estimate(np.array([1.0, 2.0, 2.0, np.inf]) + 5000, known_bytes=5)  # 2^-5000 is 0 as a float
    assert shifted.bits == pytest.approx(5002.0)
    assert shifted.standard_error == pytest.approx(found.standard_error)


@pytest.mark.parametrize(("deviation", "repeats", "within"), [(1.0, 4, 0.1), (6.0, 16, 0.2)])
def test_the_standard_error_is_the_spread_of_many_estimates(deviation: float, repeats: int, within: float) -> None:
    """Also where evidence differs by many bits, so that one completion decides."""
    random = np.random.default_rng(0)
    found = [estimate(random.normal(100, deviation, repeats), 1) for _ in range(1000)]
    spread = np.std([one.bits for one in found])
    error = np.sqrt(np.mean([one.standard_error**2 for one in found]))
    assert error == pytest.approx(spread, rel=within)


def test_equal_evidence_has_no_error_and_impossible_pixels_cost_infinitely_much() -> None:
    exact = estimate(np.full(3, 7.5), known_bytes=3)
    assert (exact.bits, exact.standard_error, exact.bits_per_dim) == (7.5, 0.0, 2.5)
    assert estimate(np.full(3, np.inf), known_bytes=3).bits == math.inf
    one = estimate(np.array([8.0, np.inf]), known_bytes=3)
    assert (one.bits, one.standard_error) == (9.0, math.inf)
    assert estimate(np.zeros(3), known_bytes=0).bits_per_dim == 0.0


@pytest.mark.parametrize("repeats", [0, 1, 257, 2.0, True, "8"])
def test_repeats_that_give_no_standard_error_are_refused(repeats: object) -> None:
    with pytest.raises(InvalidInput, match=r"^repeats must be a whole number from 2 to 256, not ") as caught:
        check_repeats(repeats)  # type: ignore[arg-type]
    assert caught.value.param == "repeats"
