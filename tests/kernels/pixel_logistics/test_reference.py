"""Mixture of logistics: probabilities are the formula's, each sums to one, and what is sampled is
what was scored.
"""

import pytest
import torch

from scanline.kernels.pixel_logistics import PixelLogistics
from scanline.kernels.pixel_logistics.reference import LOG_SCALE_FLOOR
from tests.support.close import assert_close

PIXELS = {
    1: [[0], [255], [77]],
    3: [
        [0, 0, 255],
        [255, 3, 0],
        [120, 128, 131],
    ],
}
PIXEL = [140, 90, 60]
DRAWS = 60_000
GREY = PixelLogistics(5, 1, "elu")
COLOUR = PixelLogistics(4, 3)
BYTES = torch.arange(256, dtype=torch.uint8)


def parameters(mixture, seed=0):
    """Parameters [P] float32: means over the range and beyond, scales from narrow to wide,
    coefficients of any sign.
    """
    random = torch.Generator().manual_seed(seed)
    numbers = mixture.components * mixture.channels
    scales = torch.linspace(-2.5, 0, numbers)
    parts = (
        torch.randn(mixture.components, generator=random),
        torch.randn(numbers, generator=random) * 0.7,
        scales[torch.randperm(numbers, generator=random)],
        torch.randn(mixture.components * mixture.coefficients, generator=random),
    )
    return torch.cat(parts)


def conditionals(mixture, parameters, pixel, temperature=1.0):
    """Return [C, 256] float64: the probabilities of each byte of a pixel, given its earlier bytes
    in `pixel`, with logits divided and scales multiplied by the temperature."""
    k = mixture.components
    c = mixture.channels
    sizes = [k, k * c, k * c, k * mixture.coefficients]
    logits, means, raw, coefficients = parameters.double().split(sizes)
    means = means.view(k, c)
    raw = raw.view(k, c)
    coefficients = coefficients.view(k, -1)
    weights = torch.softmax(logits / temperature, dim=0)
    exponential = raw.clamp(min=-7).exp()
    linear = torch.where(raw > 0, raw, raw.expm1()) + 1.0001
    scales = temperature * (exponential if mixture.scale == "exp" else linear)
    seen = torch.tensor(pixel) / 127.5 - 1
    edges = (torch.arange(255, dtype=torch.float64) + 0.5) / 127.5 - 1
    found = []
    for channel in range(c):
        mean = means[:, channel].clone()
        for earlier in range(channel):
            coefficient = coefficients[:, channel * (channel - 1) // 2 + earlier]
            mean += coefficient * (seen[earlier] - means[:, earlier])
        below = torch.sigmoid((edges - mean[:, None]) / scales[:, channel, None])
        cumulative = torch.cat((torch.zeros(k, 1), below, torch.ones(k, 1)), dim=1)
        of_component = cumulative.diff(dim=1)  # [K, 256]
        found.append(weights @ of_component / weights.sum())
        weights = weights * of_component[:, pixel[channel]]
    return torch.stack(found)


def assert_fits(counts, probabilities):
    """Chi-square of counts against probabilities, values of fewer than ten expected draws taken
    together.
    """
    expected = probabilities * counts.sum()
    rare = expected < 10
    counts = torch.cat((counts[~rare], counts[rare].sum(0, keepdim=True)))
    expected = torch.cat((expected[~rare], expected[rare].sum(0, keepdim=True).clamp(min=1)))
    chi_square = ((counts - expected).square() / expected).sum().item()
    freedom = len(counts) - 1
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5


@pytest.mark.parametrize(
    "mixture",
    [
        PixelLogistics(1, 1),
        PixelLogistics(5, 1),
        PixelLogistics(1, 3),
        PixelLogistics(5, 3),
        PixelLogistics(5, 1, "elu"),
        PixelLogistics(2, 3, "elu"),
    ],
    ids=str,
)
def test_probabilities_are_those_of_the_formula(mixture):
    for seed, pixel in enumerate(PIXELS[mixture.channels]):
        given = parameters(mixture, seed)
        expected = conditionals(mixture, given, pixel)
        for channel in range(mixture.channels):
            values = torch.tensor(pixel, dtype=torch.uint8).repeat(256, 1)
            values[:, channel] = BYTES
            found = mixture.log_prob(given.expand(256, -1), values)[:, channel].exp()
            assert_close(f"channel {channel} of {pixel}", expected[channel], found)


@pytest.mark.parametrize("scale", ["exp", "elu"])
def test_narrow_and_wide_scales_leave_probabilities_that_sum_to_one(scale):
    mixture = PixelLogistics(5, 1, scale)
    for raw in (-50.0, -7.0, -3.0, 0.0, 3.0, 20.0):
        given = parameters(mixture)
        given[10:] = raw
        logarithms = mixture.log_prob(given.expand(256, -1), BYTES.unsqueeze(1))
        assert logarithms.double().exp().sum() == pytest.approx(1, abs=1e-4), raw


def test_scales_below_the_floor_are_the_floor():
    mixture = PixelLogistics(5, 1)
    floor = parameters(mixture)
    floor[10:] = LOG_SCALE_FLOOR
    narrow = floor.clone()
    narrow[10:] = -9.0
    values = BYTES.unsqueeze(1)
    expected = mixture.log_prob(floor.expand(256, -1), values)
    assert torch.equal(expected, mixture.log_prob(narrow.expand(256, -1), values))


def test_an_unknown_scale_is_refused():
    sentence = "unknown scale parametrisation 'softplus'; known: exp, elu"
    with pytest.raises(ValueError, match=sentence):
        PixelLogistics(5, 1, "softplus")


def sampled(mixture, given, temperature, known):
    """DRAWS x C bytes, of which the first are `known`."""
    random = torch.Generator().manual_seed(1)
    uniforms = torch.rand(DRAWS, mixture.channels, 2, generator=random).clamp(1e-6, 1 - 1e-6)
    values = torch.zeros(DRAWS, mixture.channels, dtype=torch.uint8)
    is_known = torch.zeros_like(values, dtype=torch.bool)
    for channel, byte in enumerate(known):
        values[:, channel] = byte
        is_known[:, channel] = True
    temperatures = torch.full((DRAWS,), temperature)
    painted = mixture.sample(
        given.expand(DRAWS, -1),
        uniforms,
        temperatures,
        values,
        is_known,
    )
    assert torch.equal(painted[is_known], values[is_known])
    return painted


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
@pytest.mark.parametrize("mixture", [GREY, COLOUR], ids=str)
def test_samples_follow_the_probabilities_given_what_came_before(mixture, temperature):
    given = parameters(mixture, seed=2)
    pixel = PIXEL[: mixture.channels]
    expected = conditionals(mixture, given, pixel, temperature)
    for channel in range(mixture.channels):
        # earlier bytes are known, and the component of a later byte follows from them
        painted = sampled(mixture, given, temperature, pixel[:channel])[:, channel]
        assert_fits(painted.long().bincount(minlength=256).double(), expected[channel])


@pytest.mark.parametrize("guidance", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("mixture", [GREY, COLOUR], ids=str)
def test_a_guided_byte_divides_the_interval_as_mixed_logarithms_do(mixture, guidance):
    """Guidance 1 is the distribution with the class, 0 that without."""
    with_class = parameters(mixture, seed=2)
    without = parameters(mixture, seed=3)
    pixel = PIXEL[: mixture.channels]
    log_with = conditionals(mixture, with_class, pixel).log()
    log_without = conditionals(mixture, without, pixel).log()
    mixed = torch.softmax((log_without + guidance * (log_with - log_without)) / 0.8, dim=-1)
    u = (torch.arange(300) + 0.5) / 300
    for channel in range(mixture.channels):
        known = torch.ones(300, mixture.channels, dtype=torch.bool)
        known[:, channel] = False
        painted = mixture.sample_guided(
            with_class.expand(300, -1),
            without.expand(300, -1),
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


NOTHING = torch.zeros(1, 1, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("mean", "other_mean", "byte"), [(159 / 127.5 - 1, 1 - 159 / 127.5, 159), (1e38, 1e38, 255)]
)
def test_guidance_chooses_no_byte_that_both_mixtures_rule_out(mean, other_mean, byte):
    """Logarithms of their probabilities there differ by hundreds, or are both infinite."""
    painted = PixelLogistics(1, 1).sample_guided(
        torch.tensor([[0.0, mean, -6.0]]),
        torch.tensor([[0.0, other_mean, -7.0]]),
        torch.tensor([2.0]),
        torch.tensor([[[0.5, 0.5]]]),
        torch.ones(1),
        NOTHING,
        NOTHING.bool(),
    )
    assert painted.item() == byte


def test_two_channels_painted_together_have_the_probabilities_that_they_are_scored_with():
    """Counts of all (red, green), in 32 x 32 classes of 8 x 8 values."""
    given = parameters(COLOUR, seed=2)
    red_and_green = torch.cartesian_prod(BYTES, BYTES)
    values = torch.nn.functional.pad(red_and_green, (0, 1))
    logarithms = COLOUR.log_prob(given.expand(len(values), -1), values)
    scored = logarithms[:, :2].double().sum(dim=1).exp()
    painted = sampled(COLOUR, given, 1.0, []).long()
    pairs = 256 * painted[:, 0] + painted[:, 1]
    counts = pairs.bincount(minlength=2**16).double()
    coarse_counts = counts.view(32, 8, 32, 8).sum(dim=(1, 3)).flatten()
    coarse_scored = scored.view(32, 8, 32, 8).sum(dim=(1, 3)).flatten()
    assert coarse_scored.sum().item() == pytest.approx(1, abs=1e-4)
    assert_fits(coarse_counts, coarse_scored)


def painted_byte(given, u, temperature=1.0):
    painted = PixelLogistics(1, 1).sample(
        torch.tensor([given]),
        torch.tensor([[u]]),
        torch.tensor([temperature]),
        NOTHING,
        NOTHING.bool(),
    )
    return painted.item()


@pytest.mark.parametrize(
    "u",
    [
        (0.5, 0.5),
        (0.1, 0.4),
        (0.9, 0.6),
    ],
)
def test_a_narrow_component_gives_its_own_byte(u):
    assert painted_byte([0.0, 100 / 127.5 - 1, -50.0], u) == 100


@pytest.mark.parametrize(("u", "byte"), [(2.0**-24, 0), (1 - 2.0**-24, 255)])
def test_the_ends_of_the_unit_interval_give_the_outer_bytes(u, byte):
    assert painted_byte([0.0, 0.0, 0.0], (u, u)) == byte


def test_a_higher_temperature_is_further_from_the_mean():
    painted = [painted_byte([0.0, 0.0, -2.0], (0.3, 0.7), t) for t in (0.5, 1.0, 1.7)]
    assert 127 < painted[0] < painted[1] < painted[2]


@pytest.mark.parametrize("scale", ["exp", "elu"])
@pytest.mark.parametrize(
    ("mean", "raw"),
    [
        (-30.0, -50.0),
        (30.0, -50.0),
        (30.0, 0.0),
        (-30.0, 50.0),
    ],
)
def test_pixels_far_from_every_mean_have_finite_logarithms_and_gradients(scale, mean, raw):
    mixture = PixelLogistics(2, 3, scale)
    pixels = torch.tensor(
        [
            [3, 128, 250],
            [0, 0, 255],
            [255, 255, 0],
        ],
        dtype=torch.uint8,
    )
    given = torch.zeros(mixture.width)
    given[2:8] = mean
    given[8:14] = raw
    given[14:] = 5.0
    given.requires_grad_()
    log_prob = mixture.log_prob(given.expand(3, -1), pixels)
    log_prob.sum().backward()
    assert log_prob.isfinite().all()
    assert given.grad.isfinite().all()
