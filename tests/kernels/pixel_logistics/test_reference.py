"""Mixture of logistics: probabilities are the formula's, each sums to one, and
what is sampled is what was scored.
"""

import pytest
import torch

from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.kernels.pixel_logistics.reference import LOG_SCALE_FLOOR
from tests.support.close import assert_close

PIXELS = {1: [[0], [255], [77]], 3: [[0, 0, 255], [255, 3, 0], [120, 128, 131]]}
DRAWS = 60_000
MIXTURES = [(1, 1), (5, 1), (1, 3), (5, 3), (5, 1, "elu"), (2, 3, "elu")]


def parameters(components: int, channels: int, seed: int = 0) -> torch.Tensor:
    """Parameters [P] float32: means over the range and beyond, scales from narrow
    to wide, coefficients of any sign.
    """
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(components, generator=random)
    means = torch.randn(components, channels, generator=random) * 0.7
    scales = torch.linspace(-2.5, 0, components * channels)
    coefficients = torch.randn(components * channels * (channels - 1) // 2, generator=random)
    return torch.cat(
        (
            logits,
            means.flatten(),
            scales[torch.randperm(len(scales), generator=random)],
            coefficients,
        )
    )


def conditionals(
    parameters: torch.Tensor,
    components: int,
    pixel: list[int],
    temperature: float = 1.0,
    scale: str = "exp",
) -> torch.Tensor:
    """Return [C, 256] float64: the probabilities of each byte of a pixel, given its earlier bytes
    in `pixel`, with logits divided and scales multiplied by the temperature."""
    k = components
    c = len(pixel)
    p = parameters.double()
    weights = torch.softmax(p[:k] / temperature, dim=0)
    (means, raw), rest = p[k : k + 2 * k * c].view(2, k, c), p[k + 2 * k * c :].view(k, -1)
    scales = (
        raw.clamp(min=-7).exp()
        if scale == "exp"
        else torch.where(raw > 0, raw, raw.expm1()) + 1.0001
    )
    scales = scales * temperature
    seen = torch.tensor(pixel, dtype=torch.float64) / 127.5 - 1
    edges = torch.arange(255, dtype=torch.float64) / 127.5 - 1 + 1 / 255
    found = []
    for channel in range(c):
        mean = means[:, channel].clone()
        for earlier in range(channel):
            mean += rest[:, channel * (channel - 1) // 2 + earlier] * (
                seen[earlier] - means[:, earlier]
            )
        below = torch.sigmoid((edges - mean[:, None]) / scales[:, channel, None])
        # [K, 256]
        of_each = torch.cat((torch.zeros(k, 1), below, torch.ones(k, 1)), dim=1).diff(dim=1)
        found.append(weights @ of_each / weights.sum())
        weights = weights * of_each[:, pixel[channel]]
    return torch.stack(found)


def assert_fits(counts: torch.Tensor, probabilities: torch.Tensor) -> None:
    """Chi-square of counts against probabilities, values of fewer than
    ten expected draws taken together.
    """
    expected = probabilities * counts.sum()
    rare = expected < 10
    counts = torch.cat((counts[~rare], counts[rare].sum(0, keepdim=True)))
    expected = torch.cat((expected[~rare], expected[rare].sum(0, keepdim=True).clamp(min=1)))
    chi_square = ((counts - expected).square() / expected).sum().item()
    freedom = len(counts) - 1
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("mixture", [PixelLogistics(*of) for of in MIXTURES], ids=str)
def test_probabilities_are_those_of_the_formula_and_sum_to_one(mixture: PixelLogistics) -> None:
    for seed, pixel in enumerate(PIXELS[mixture.channels]):
        given = parameters(mixture.components, mixture.channels, seed)
        assert given.shape == (mixture.width,)
        expected = conditionals(given, mixture.components, pixel, scale=mixture.scale)
        for channel in range(mixture.channels):
            values = torch.tensor(pixel, dtype=torch.uint8).repeat(256, 1)
            values[:, channel] = torch.arange(256)
            found = mixture.log_prob(given.expand(256, -1), values)[:, channel].exp()
            assert_close(f"channel {channel} of {pixel}", expected[channel], found)


def log_probs(given: torch.Tensor, scale: str = "exp") -> torch.Tensor:
    """Return [256] log-probabilities of all bytes under parameters [3K]."""
    values = torch.arange(256, dtype=torch.uint8).unsqueeze(1)
    return (
        PixelLogistics(len(given) // 3, 1, scale).log_prob(given.expand(256, -1), values).squeeze(1)
    )


@pytest.mark.parametrize("scale", ["exp", "elu"])
def test_narrow_and_wide_scales_leave_probabilities_that_sum_to_one(scale: str) -> None:
    for raw in (-50.0, -7.0, -3.0, 0.0, 3.0, 20.0):
        given = parameters(5, 1)
        given[10:] = raw
        assert abs(log_probs(given, scale).double().exp().sum() - 1) < 1e-4, raw


def test_scales_below_the_floor_are_the_floor_and_an_unknown_scale_is_refused() -> None:
    narrow = parameters(5, 1)
    floor = parameters(5, 1)
    narrow[10:], floor[10:] = -9.0, LOG_SCALE_FLOOR
    assert torch.equal(log_probs(narrow), log_probs(floor))
    with pytest.raises(
        ValueError, match="unknown scale parametrisation 'softplus'; known: exp, elu"
    ):
        log_probs(narrow, "softplus")


def counts(values: torch.Tensor, kinds: int = 256) -> torch.Tensor:
    return torch.bincount(values.long(), minlength=kinds).double()


def sampled(
    mixture: PixelLogistics, given: torch.Tensor, temperature: float, known: list[int]
) -> torch.Tensor:
    """DRAWS x C bytes, of which the first are `known`."""
    uniforms = torch.rand(
        DRAWS, mixture.channels, 2, generator=torch.Generator().manual_seed(1)
    ).clamp(1e-6, 1 - 1e-6)
    values = torch.tensor(
        [*known, *[0] * (mixture.channels - len(known))], dtype=torch.uint8
    ).expand(DRAWS, -1)
    is_known = (torch.arange(mixture.channels) < len(known)).expand(DRAWS, -1)
    painted = mixture.sample(
        given.expand(DRAWS, -1), uniforms, torch.full((DRAWS,), temperature), values, is_known
    )
    assert torch.equal(painted[:, : len(known)], values[:, : len(known)])
    return painted


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
@pytest.mark.parametrize("mixture", [PixelLogistics(5, 1, "elu"), PixelLogistics(4, 3)], ids=str)
def test_samples_follow_the_probabilities_given_what_came_before(
    mixture: PixelLogistics, temperature: float
) -> None:
    given = parameters(mixture.components, mixture.channels, 2)
    pixel = [140, 90, 60][: mixture.channels]
    expected = conditionals(given, mixture.components, pixel, temperature, mixture.scale)
    for channel in range(mixture.channels):
        # earlier bytes are known, and the component of a later byte follows from them
        assert_fits(
            counts(sampled(mixture, given, temperature, pixel[:channel])[:, channel]),
            expected[channel],
        )


@pytest.mark.parametrize("guidance", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("mixture", [PixelLogistics(5, 1, "elu"), PixelLogistics(4, 3)], ids=str)
def test_a_guided_byte_divides_the_interval_as_mixed_logarithms_do(
    mixture: PixelLogistics, guidance: float
) -> None:
    """Guidance 1 is the distribution with the class, 0 that without."""
    pair = [parameters(mixture.components, mixture.channels, seed) for seed in (2, 3)]
    pixel = [140, 90, 60][: mixture.channels]
    with_class, without = (
        conditionals(given, mixture.components, pixel, scale=mixture.scale) for given in pair
    )
    mixed = torch.softmax(
        (without.log() + guidance * (with_class.log() - without.log())) / 0.8, dim=-1
    )
    u = (torch.arange(300) + 0.5) / 300
    for channel in range(mixture.channels):
        known = (torch.arange(mixture.channels) != channel).expand(300, -1)
        painted = mixture.sample_guided(
            *(given.expand(300, -1) for given in pair),
            torch.full((300,), guidance),
            u[:, None, None].expand(-1, mixture.channels, 2),
            torch.full((300,), 0.8),
            torch.tensor(pixel, dtype=torch.uint8).expand(300, -1),
            known,
        )
        byte = painted[:, channel].long()
        upper = mixed[channel].cumsum(dim=0)
        assert (u < upper[byte] + 1e-5).all()
        assert (u > (upper - mixed[channel])[byte] - 1e-5).all()


@pytest.mark.parametrize(("mean", "byte"), [(159 / 127.5 - 1, 159), (1e38, 255)])
def test_guidance_chooses_no_byte_that_both_mixtures_rule_out(mean: float, byte: int) -> None:
    """Logarithms of their probabilities there differ by hundreds, or are both infinite."""
    with_class = torch.tensor([[0.0, mean, -6.0]])
    without = torch.tensor([[0.0, -mean, -7.0]]) if mean < 1 else with_class
    draws = torch.tensor([[[0.5, 0.5]]])
    nothing = torch.zeros(1, 1, dtype=torch.uint8)
    guidance = torch.tensor([2.0])
    temperature = torch.ones(1)
    how = guidance, draws, temperature, nothing, nothing.bool()
    assert PixelLogistics(1, 1).sample_guided(with_class, without, *how).item() == byte


def test_two_channels_painted_together_have_the_probabilities_that_they_are_scored_with() -> None:
    """Counts of all (red, green), in 32 x 32 classes of 8 x 8 values."""
    mixture = PixelLogistics(4, 3)
    given = parameters(4, 3, seed=2)
    pairs = torch.cartesian_prod(*[torch.arange(256, dtype=torch.uint8)] * 2)
    values = torch.cat((pairs, torch.zeros(len(pairs), 1, dtype=torch.uint8)), dim=1)
    scored = mixture.log_prob(given.expand(len(pairs), -1), values)[:, :2].double().sum(dim=1).exp()
    painted = sampled(mixture, given, 1.0, []).long()
    joint = counts(256 * painted[:, 0] + painted[:, 1], 2**16)
    coarse = [table.view(32, 8, 32, 8).sum(dim=(1, 3)).flatten() for table in (joint, scored)]
    assert coarse[1].sum().item() == pytest.approx(1, abs=1e-4)
    assert_fits(*coarse)


def painted_bytes(given: torch.Tensor, u: torch.Tensor, temperature: torch.Tensor) -> list[int]:
    nothing = torch.zeros(len(u), 1, dtype=torch.uint8)
    return (
        PixelLogistics(1, 1)
        .sample(given, u.unsqueeze(1), temperature, nothing, nothing.bool())
        .flatten()
        .tolist()
    )


def test_a_narrow_component_gives_its_own_byte_and_the_ends_of_the_unit_interval_the_outer_bytes() -> (
    None
):
    u = torch.tensor([[0.5, 0.5], [0.1, 0.4], [0.9, 0.6]])
    narrow = torch.tensor([0.0, 100 / 127.5 - 1, -50.0]).expand(3, -1)
    assert painted_bytes(narrow, u, torch.ones(3)) == [100, 100, 100]
    ends = torch.tensor([2.0**-24, 1 - 2.0**-24])[:, None].expand(2, 2)
    assert painted_bytes(torch.zeros(2, 3), ends, torch.ones(2)) == [0, 255]


def test_temperature_is_each_images_own() -> None:
    rows = torch.tensor([0.0, 0.0, -2.0]).expand(3, -1)
    u = torch.tensor([[0.3, 0.7]] * 3)
    temperature = torch.tensor([0.5, 1.0, 1.7])
    together = painted_bytes(rows, u, temperature)
    assert together == [painted_bytes(rows[:1], u[:1], temperature[i : i + 1])[0] for i in range(3)]
    assert len(set(together)) == 3


@pytest.mark.parametrize("scale", ["exp", "elu"])
def test_pixels_far_from_every_mean_have_finite_logarithms_and_gradients(scale: str) -> None:
    mixture = PixelLogistics(2, 3, scale)
    pixels = torch.tensor([[3, 128, 250], [0, 0, 255], [255, 255, 0]], dtype=torch.uint8)
    for mean, raw in ((-30.0, -50.0), (30.0, -50.0), (30.0, 0.0), (-30.0, 50.0)):
        given = torch.zeros(mixture.width)
        given[2:8], given[8:14], given[14:] = mean, raw, 5.0
        given.requires_grad_()
        log_prob = mixture.log_prob(given.expand(3, -1), pixels)
        log_prob.sum().backward()
        assert log_prob.isfinite().all()
        assert given.grad.isfinite().all()


def test_rows_of_a_batch_are_each_alone() -> None:
    mixture = PixelLogistics(3, 3)
    given = torch.stack([parameters(3, 3, seed) for seed in range(4)])
    values = torch.tensor(
        [[0, 255, 3], [128, 7, 200], [9, 9, 9], [255, 255, 255]], dtype=torch.uint8
    )
    together = mixture.log_prob(given.view(2, 2, -1), values.view(2, 2, 3)).view(4, 3)
    assert_close(
        "log-probabilities",
        torch.stack([mixture.log_prob(given[i], values[i]) for i in range(4)]),
        together,
    )
