"""How unusual images are, and what known pixels cost."""

import io
import math

import numpy as np
import pytest
from PIL import Image

from scanline.model import zoo
from scanline.model.images.pictures import open_picture, pixels
from scanline.model.inference import load
from scanline.model.inputs import InvalidInput
from scanline.model.likelihood.marginal_likelihood import check_repeats, estimate
from scanline.model.likelihood.typicality import TYPICAL, Typicality

BITS = np.linspace(100, 200, 1001)
IMAGES = np.full((1001, 50), 128, np.uint8)
CLEAN = np.zeros(1001, bool)
FOUND = Typicality.measure(BITS, IMAGES, np.arange(1001) < 6)


def test_test_images_are_typical_but_for_one_in_a_hundred_at_most() -> None:
    tails = FOUND.tail_probabilities(BITS, IMAGES, CLEAN)
    assert 0 < (tails < TYPICAL).mean() <= TYPICAL
    assert tails[500] == 1
    assert FOUND.range == pytest.approx((100.5 / 50, 199.5 / 50))


def test_too_many_bits_too_few_and_greys_that_cost_too_much_are_not_typical() -> None:
    fewer_greys = IMAGES[:1].copy()
    fewer_greys[0, 10:] = 0
    for bits, image in ((230.0, IMAGES[:1]), (np.inf, IMAGES[:1]), (70.0, IMAGES[:1]), (150.0, fewer_greys)):
        assert FOUND.tail_probabilities(np.array([bits]), image, CLEAN[:1]) == [4 / 1002]


def test_noise_that_few_test_images_have_is_not_typical() -> None:
    tails = FOUND.tail_probabilities(BITS[500:501], IMAGES[:1], np.ones(1, bool))
    assert tails == pytest.approx(6 / 1001)


def test_the_figures_are_read_as_they_were_written() -> None:
    assert Typicality.from_dict(FOUND.to_dict()) == FOUND
    for wrong in ([], {"images": 3}, FOUND.to_dict() | {"bits_per_dim": [1.0]}, FOUND.to_dict() | {"images": "3"}):
        with pytest.raises(ValueError, match=r"^typical must hold images and quantiles"):
            Typicality.from_dict(wrong)


def test_a_drawing_on_a_transparent_canvas_is_unlike_the_shipped_models_digits_and_its_samples_are_not() -> None:
    """A transparent canvas is read as white."""
    model = load(zoo.DEFAULT, device="cpu")
    sheet = np.asarray(Image.open(zoo.find(zoo.DEFAULT) / "any.png")).reshape(8, 28, 8, 28)
    digits = sheet.transpose(0, 2, 1, 3).reshape(64, 28, 28)
    canvas = np.zeros((28, 28, 4), np.uint8)
    canvas[..., 3] = digits[0]
    file = io.BytesIO()
    Image.fromarray(canvas).save(file, "PNG")
    drawing = pixels(open_picture(file.getvalue(), model.config, "image"), model.config).reshape(1, 28, 28)
    tails = model.tail_probabilities(np.concatenate([digits, drawing, np.zeros_like(drawing)]))
    assert (tails[:64] >= TYPICAL).sum() >= 60  # of test images one in a hundred is not typical
    assert (tails[64:] < TYPICAL).all()


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
