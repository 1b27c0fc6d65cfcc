"""The tail probability of a picture among a model's test images."""

import io

import numpy as np
import pytest
from PIL import Image

from scanline.model import zoo
from scanline.model.images.pictures import open_picture, pixels
from scanline.model.inference import load
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
