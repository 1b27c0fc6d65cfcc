"""Sampled histogram == probabilities: what is painted is what is scored, at any temperature."""

import pytest
import torch

from scanline.kernels import mixture
from scanline.kernels.philox import uniforms
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
from tests.support import small_models
from tests.support.logistics import components, probabilities

DRAWS = 200_000


def sampled(parameters: torch.Tensor, scale: str, temperature: float) -> torch.Tensor:
    """Counts [256] of DRAWS bytes, each from the random numbers of a pixel of its own."""
    u = uniforms(torch.tensor(3), torch.arange(DRAWS // 1000)[:, None], torch.arange(1000)).flatten(0, 1)
    rows = parameters.expand(DRAWS, -1)
    values = mixture.sample(rows, u, torch.full((DRAWS,), temperature), scale)
    return torch.bincount(values.long(), minlength=256).double()


def assert_fits(counts: torch.Tensor, expected: torch.Tensor) -> None:
    """Chi-square of counts against probabilities, bytes of fewer than ten expected draws taken together."""
    expected = expected * DRAWS
    rare = expected < 10
    counts = torch.cat((counts[~rare], counts[rare].sum(0, keepdim=True)))
    expected = torch.cat((expected[~rare], expected[rare].sum(0, keepdim=True).clamp(min=1)))
    chi_square, freedom = ((counts - expected).square() / expected).sum().item(), len(counts) - 1
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("scale", ["exp", "elu"])
@pytest.mark.parametrize("seed", [0, 1])
def test_histogram_matches_log_prob(seed: int, scale: str) -> None:
    parameters = components(seed)
    scored = mixture.log_prob(parameters.expand(256, -1), torch.arange(256, dtype=torch.uint8), scale)
    assert_fits(sampled(parameters, scale, 1.0), scored.double().exp())


@pytest.mark.parametrize("scale", ["exp", "elu"])
@pytest.mark.parametrize("temperature", [0.5, 1.7])
def test_histogram_is_the_tempered_mixture(temperature: float, scale: str) -> None:
    parameters = components()
    assert_fits(sampled(parameters, scale, temperature), probabilities(parameters, scale, temperature))


def test_a_narrow_component_gives_its_own_byte_and_the_ends_of_the_unit_interval_the_outer_bytes() -> None:
    u = torch.tensor([[0.5, 0.5], [0.1, 0.4], [0.9, 0.6]])
    narrow = torch.tensor([0.0, 100 / 127.5 - 1, -50.0]).expand(3, -1)
    assert mixture.sample(narrow, u, torch.ones(3), "exp").tolist() == [100, 100, 100]
    ends = torch.tensor([2.0**-24, 1 - 2.0**-24])[:, None].expand(2, 2)
    assert mixture.sample(torch.zeros(2, 3), ends, torch.ones(2), "exp").tolist() == [0, 255]


def test_temperature_is_each_images_own() -> None:
    rows, u = torch.tensor([0.0, 0.0, -2.0]).expand(3, -1), torch.tensor([[0.3, 0.7]] * 3)
    temperature = torch.tensor([0.5, 1.0, 1.7])
    together = mixture.sample(rows, u, temperature, "exp")
    alone = [mixture.sample(rows[:1], u[:1], temperature[i : i + 1], "exp").item() for i in range(3)]
    assert together.tolist() == alone
    assert len(set(alone)) == 3


def test_first_byte_follows_the_histogram() -> None:
    generator = Generator(small_models.model(small_models.config(**small_models.NO_START)), 1)
    counts = torch.zeros(256)
    for index in range(2000):
        generator.place(0, ImageSpec(1, index))
        counts[generator.image(0)[0]] += 1
    generator.close()
    coarse = counts.view(16, 16).sum(dim=1)
    expected = torch.tensor(small_models.HISTOGRAM).view(16, 16).sum(dim=1) * 2000
    assert ((coarse - expected).square() / expected).sum() < 15 + 4 * 30**0.5
