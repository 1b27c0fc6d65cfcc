"""A pixel's bytes: their probabilities are the formula's, each sums to one, and what is sampled is what was scored."""

import pytest
import torch

from scanline.kernels.logistics import Logistics
from scanline.kernels.pixel_logistics import PixelLogistics
from tests.support.close import assert_close
from tests.support.kernels.pixel_logistics import conditionals, parameters

PIXELS = {1: [[0], [255], [77]], 3: [[0, 0, 255], [255, 3, 0], [120, 128, 131]]}
SHAPES = pytest.mark.parametrize(("components", "channels"), [(1, 1), (3, 1), (1, 3), (5, 3)])


@SHAPES
def test_probabilities_are_those_of_the_formula_and_sum_to_one(components: int, channels: int) -> None:
    law = PixelLogistics(components, channels)
    for seed, pixel in enumerate(PIXELS[channels]):
        given = parameters(components, channels, seed)
        assert given.shape == (law.width,)
        expected = conditionals(given, components, pixel)
        for channel in range(channels):
            values = torch.tensor(pixel, dtype=torch.uint8).repeat(256, 1)
            values[:, channel] = torch.arange(256)
            found = law.log_prob(given.expand(256, -1), values)[:, channel].exp()
            assert_close(f"channel {channel} of {pixel}", expected[channel], found)


def test_one_channel_is_the_mixture_of_logistics() -> None:
    given, values = parameters(4, 1).expand(256, -1), torch.arange(256, dtype=torch.uint8).unsqueeze(1)
    expected = Logistics(4).log_prob(given, values)
    assert_close("log-probabilities", expected, PixelLogistics(4, 1).log_prob(given, values))


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


def test_pixels_far_from_every_mean_have_finite_logarithms_and_gradients() -> None:
    law = PixelLogistics(2, 3)
    for mean in (-30.0, 30.0):
        given = torch.zeros(law.width)
        given[2:8], given[8:14], given[14:] = mean, -50.0, 5.0
        given.requires_grad_()
        log_prob = law.log_prob(given, torch.tensor([3, 128, 250], dtype=torch.uint8))
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
