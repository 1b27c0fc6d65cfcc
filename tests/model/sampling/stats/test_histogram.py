"""Sampled histogram == probabilities: what is painted is what is scored, at any temperature, for every distribution."""

import pytest
import torch

from scanline.kernels.categorical import Categorical
from scanline.kernels.philox import uniforms
from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.model.network.distribution import Distribution
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec
from tests.support import small_models
from tests.support.kernels.pixel_logistics import conditionals, parameters

DRAWS = 200_000
BYTES = torch.arange(256, dtype=torch.uint8).unsqueeze(1)
LAWS: dict[str, Distribution] = {
    "exp": PixelLogistics(5, 1, "exp"),
    "elu": PixelLogistics(5, 1, "elu"),
    "categorical": Categorical(),
}
PIXEL, COMPONENTS = [140, 90, 60], 4
PIXELS = PixelLogistics(COMPONENTS, 3)


def parameters_of(law: str, seed: int = 0) -> torch.Tensor:
    if law == "categorical":
        return 2 * torch.randn(256, generator=torch.Generator().manual_seed(seed))
    return parameters(5, 1, seed)


def sampled(law: Distribution, parameters: torch.Tensor, temperature: float, known: list[int], size: int = 1):
    """DRAWS x the `size` bytes of a step, each from the random numbers of a step of its own; the first are `known`."""
    index, step = torch.arange(DRAWS // 1000)[:, None, None], torch.arange(1000)[:, None]
    u = uniforms(torch.tensor(3), index, step * size + torch.arange(size)).flatten(0, 1)
    values = torch.tensor([*known, *[0] * (size - len(known))], dtype=torch.uint8).expand(DRAWS, -1)
    given = (torch.arange(size) < len(known)).expand(DRAWS, -1)
    return law.sample(parameters.expand(DRAWS, -1), u, torch.full((DRAWS,), temperature), values, given)


def counts(values: torch.Tensor) -> torch.Tensor:
    return torch.bincount(values.long(), minlength=256).double()


def assert_fits(counts: torch.Tensor, expected: torch.Tensor) -> None:
    """Chi-square of counts against probabilities, values of fewer than ten expected draws taken together."""
    expected = expected * DRAWS
    rare = expected < 10
    counts = torch.cat((counts[~rare], counts[rare].sum(0, keepdim=True)))
    expected = torch.cat((expected[~rare], expected[rare].sum(0, keepdim=True).clamp(min=1)))
    chi_square, freedom = ((counts - expected).square() / expected).sum().item(), len(counts) - 1
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("seed", [0, 1])
def test_histogram_matches_log_prob(seed: int, name: str) -> None:
    law, given = LAWS[name], parameters_of(name, seed)
    scored = law.log_prob(given.expand(256, -1), BYTES).squeeze(1)
    assert_fits(counts(sampled(law, given, 1.0, [])[:, 0]), scored.double().exp())


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("temperature", [0.5, 1.7])
def test_histogram_is_the_tempered_distribution(temperature: float, name: str) -> None:
    given = parameters_of(name)
    if name == "categorical":
        expected = torch.softmax(given.double() / temperature, dim=0)
    else:
        (expected,) = conditionals(given, 5, [0], temperature, name)
    assert_fits(counts(sampled(LAWS[name], given, temperature, [])[:, 0]), expected)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("channel", [0, 1, 2])
def test_histogram_of_a_channel_is_its_distribution_given_the_known_ones_before_it(
    channel: int, temperature: float
) -> None:
    given = parameters(COMPONENTS, 3, seed=2)
    painted = sampled(PIXELS, given, temperature, PIXEL[:channel], 3)
    expected = conditionals(given, COMPONENTS, PIXEL, temperature)[channel]
    assert_fits(counts(painted[:, channel]), expected)
    if temperature == 1:
        values = torch.tensor(PIXEL, dtype=torch.uint8).repeat(256, 1)
        values[:, channel] = BYTES[:, 0]
        scored = PIXELS.log_prob(given.expand(256, -1), values)[:, channel]
        assert_fits(counts(painted[:, channel]), scored.double().exp())


def test_two_channels_painted_together_have_the_probabilities_that_they_are_scored_with() -> None:
    """Counts of all (red, green), in 32 x 32 classes of 8 x 8 values."""
    given = parameters(COMPONENTS, 3, seed=2)
    pairs = torch.cartesian_prod(BYTES[:, 0], BYTES[:, 0])
    values = torch.cat((pairs, torch.zeros(len(pairs), 1, dtype=torch.uint8)), dim=1)
    scored = PIXELS.log_prob(given.expand(len(pairs), -1), values)[:, :2].double().sum(dim=1).exp()
    painted = sampled(PIXELS, given, 1.0, [], 3)
    joint = torch.bincount(256 * painted[:, 0].long() + painted[:, 1].long(), minlength=2**16).double()
    coarse = [table.view(32, 8, 32, 8).sum(dim=(1, 3)).flatten() for table in (joint, scored)]
    assert coarse[1].sum().item() == pytest.approx(1, abs=1e-4)
    assert_fits(*coarse)


def painted_bytes(given: torch.Tensor, u: torch.Tensor, temperature: torch.Tensor) -> list[int]:
    nothing = torch.zeros(len(u), 1, dtype=torch.uint8)
    law = PixelLogistics(given.shape[1] // 3, 1)
    return law.sample(given, u.unsqueeze(1), temperature, nothing, nothing.bool()).flatten().tolist()


def test_a_narrow_component_gives_its_own_byte_and_the_ends_of_the_unit_interval_the_outer_bytes() -> None:
    u = torch.tensor([[0.5, 0.5], [0.1, 0.4], [0.9, 0.6]])
    narrow = torch.tensor([0.0, 100 / 127.5 - 1, -50.0]).expand(3, -1)
    assert painted_bytes(narrow, u, torch.ones(3)) == [100, 100, 100]
    ends = torch.tensor([2.0**-24, 1 - 2.0**-24])[:, None].expand(2, 2)
    assert painted_bytes(torch.zeros(2, 3), ends, torch.ones(2)) == [0, 255]


def test_temperature_is_each_images_own() -> None:
    rows, u = torch.tensor([0.0, 0.0, -2.0]).expand(3, -1), torch.tensor([[0.3, 0.7]] * 3)
    temperature = torch.tensor([0.5, 1.0, 1.7])
    together = painted_bytes(rows, u, temperature)
    alone = [painted_bytes(rows[:1], u[:1], temperature[i : i + 1])[0] for i in range(3)]
    assert together == alone
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
