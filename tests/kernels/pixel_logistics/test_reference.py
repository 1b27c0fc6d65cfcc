"""Mixture of logistics: probabilities are the formula's, each sums to one, and what is sampled is what was scored."""

import pytest
import torch

from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.kernels.pixel_logistics.reference import LOG_SCALE_FLOOR
from tests.support.close import assert_close
from tests.support.kernels.pixel_logistics import conditionals, parameters

PIXELS = {1: [[0], [255], [77]], 3: [[0, 0, 255], [255, 3, 0], [120, 128, 131]]}
LAWS = [(1, 1), (5, 1), (1, 3), (5, 3), (5, 1, "elu"), (2, 3, "elu")]


@pytest.mark.parametrize("law", [PixelLogistics(*of) for of in LAWS], ids=str)
def test_probabilities_are_those_of_the_formula_and_sum_to_one(law: PixelLogistics) -> None:
    for seed, pixel in enumerate(PIXELS[law.channels]):
        given = parameters(law.components, law.channels, seed)
        assert given.shape == (law.width,)
        expected = conditionals(given, law.components, pixel, scale=law.scale)
        for channel in range(law.channels):
            values = torch.tensor(pixel, dtype=torch.uint8).repeat(256, 1)
            values[:, channel] = torch.arange(256)
            found = law.log_prob(given.expand(256, -1), values)[:, channel].exp()
            assert_close(f"channel {channel} of {pixel}", expected[channel], found)


def log_probs(given: torch.Tensor, scale: str = "exp") -> torch.Tensor:
    """Return [256] log-probabilities of all bytes under parameters [3K]."""
    values = torch.arange(256, dtype=torch.uint8).unsqueeze(1)
    return PixelLogistics(len(given) // 3, 1, scale).log_prob(given.expand(256, -1), values).squeeze(1)


@pytest.mark.parametrize("scale", ["exp", "elu"])
def test_narrow_and_wide_scales_leave_probabilities_that_sum_to_one(scale: str) -> None:
    for raw in (-50.0, -7.0, -3.0, 0.0, 3.0, 20.0):
        given = parameters(5, 1)
        given[10:] = raw
        assert abs(log_probs(given, scale).double().exp().sum() - 1) < 1e-4, raw


def test_scales_below_the_floor_are_the_floor_and_an_unknown_scale_is_refused() -> None:
    narrow, floor = parameters(5, 1), parameters(5, 1)
    narrow[10:], floor[10:] = -9.0, LOG_SCALE_FLOOR
    assert torch.equal(log_probs(narrow), log_probs(floor))
    with pytest.raises(ValueError, match="unknown scale parametrisation 'softplus'; known: exp, elu"):
        log_probs(narrow, "softplus")


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_samples_follow_the_probabilities_given_what_came_before(temperature: float) -> None:
    law, given, count = PixelLogistics(4, 3), parameters(4, 3, 2), 60_000
    pixel = [140, 90, 60]
    expected = conditionals(given, 4, pixel, temperature)
    random = torch.Generator().manual_seed(1)
    for channel in range(3):
        # earlier bytes are known, and the component of a later byte follows from them
        known = (torch.arange(3) < channel).expand(count, -1)
        values = torch.tensor(pixel, dtype=torch.uint8).expand(count, -1)
        uniforms = torch.rand(count, 3, 2, generator=random).clamp(1e-6, 1 - 1e-6)
        painted = law.sample(given.expand(count, -1), uniforms, torch.full((count,), temperature), values, known)
        assert torch.equal(painted[:, :channel], values[:, :channel])
        observed = torch.bincount(painted[:, channel].long(), minlength=256).double()
        wanted = expected[channel] * count
        likely = wanted > 5
        chi_square = ((observed - wanted)[likely] ** 2 / wanted[likely]).sum()
        freedom = int(likely.sum()) - 1
        assert chi_square < freedom + 4 * (2 * freedom) ** 0.5, channel
        assert observed[~likely].sum() <= wanted[~likely].sum() + 5 * (wanted[~likely].sum() + 1) ** 0.5


@pytest.mark.parametrize("scale", ["exp", "elu"])
def test_pixels_far_from_every_mean_have_finite_logarithms_and_gradients(scale: str) -> None:
    law = PixelLogistics(2, 3, scale)
    pixels = torch.tensor([[3, 128, 250], [0, 0, 255], [255, 255, 0]], dtype=torch.uint8)
    for mean, raw in ((-30.0, -50.0), (30.0, -50.0), (30.0, 0.0), (-30.0, 50.0)):
        given = torch.zeros(law.width)
        given[2:8], given[8:14], given[14:] = mean, raw, 5.0
        given.requires_grad_()
        log_prob = law.log_prob(given.expand(3, -1), pixels)
        log_prob.sum().backward()
        assert log_prob.isfinite().all()
        assert given.grad is not None
        assert given.grad.isfinite().all()


def test_rows_of_a_batch_are_each_alone() -> None:
    law = PixelLogistics(3, 3)
    given = torch.stack([parameters(3, 3, seed) for seed in range(4)])
    values = torch.tensor([[0, 255, 3], [128, 7, 200], [9, 9, 9], [255, 255, 255]], dtype=torch.uint8)
    together = law.log_prob(given.view(2, 2, -1), values.view(2, 2, 3)).view(4, 3)
    alone = torch.stack([law.log_prob(given[i], values[i]) for i in range(4)])
    assert_close("log-probabilities", alone, together)
