"""Noise is removed from pictures of drawings, and pictures without noise stay as they are."""

import io

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

import scanline
from scanline.model.images.cleaning import Cleaning, read
from tests.support import small_models
from tests.support.pictures import encode

CONFIG = small_models.config(height=28, width=28)
ON_BLACK = Cleaning(0, 254)
ON_WHITE = Cleaning(255, 1)
GROUNDS = pytest.mark.parametrize("cleaning", [ON_BLACK, ON_WHITE], ids=["on black", "on white"])


def drawings(count):
    """Return strokes of 254 with soft edges on 0, [count, 784] uint8."""
    random = np.random.default_rng(1)
    y, x = np.mgrid[:28, :28]
    images = np.zeros((count, 28, 28), np.uint8)
    for image in images:
        slope = random.uniform(-0.5, 0.5)
        shift = random.uniform(9, 19)
        away = np.abs(x - shift - slope * (y - 14))
        stroke = (254 * np.clip(2.5 - away, 0, 1)).round()
        image[5:24] = stroke[5:24]
    return images.reshape(count, -1)


def on_ground(images, cleaning):
    """Drawings on 0 as those on the ground of `cleaning`."""
    return images if cleaning.ground == 0 else 255 - images


def coded(images, kind="JPEG", **options):
    """What a codec makes of pictures."""
    decoded = []
    for image in images:
        file = io.BytesIO(encode(image.reshape(28, 28), kind, **options))
        decoded.append(np.asarray(Image.open(file).convert("L")).reshape(-1))
    return np.stack(decoded)


@GROUNDS
@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
def test_the_ground_of_a_coded_drawing_is_even_again(kind, cleaning):
    images = on_ground(drawings(20), cleaning)
    assert Cleaning.measure(images, CONFIG) == cleaning
    noisy = coded(images, kind)
    ground = images == cleaning.ground
    assert (noisy[ground] != cleaning.ground).mean() > 0.05
    found = read(noisy, CONFIG, cleaning, "auto")
    assert found.noisy.all()
    assert not found.tolerances.any()
    assert (found.images[ground] != cleaning.ground).mean() < 0.005
    assert_array_equal(read(noisy, CONFIG, cleaning, "off").images, noisy)


@GROUNDS
def test_a_drawing_without_noise_stays_as_it_is(cleaning):
    images = on_ground(drawings(20), cleaning)
    found = read(images, CONFIG, cleaning, "auto")
    assert not found.noisy.any()
    assert_array_equal(found.images, images)


def test_noisy_pictures_of_a_model_with_a_table_of_values_have_a_tolerance():
    config = small_models.config(height=28, width=28, predicts="categorical")
    clean = drawings(1)
    little = np.maximum(clean, 3)
    much = coded(clean, quality=30)
    images = np.concatenate([clean, little, much])
    tolerances = read(images, config, ON_BLACK, "auto").tolerances.tolist()
    assert tolerances == [0, 16, 3 * ON_BLACK.noise(much, config)[0] // 2]
    assert tolerances[2] > 16
    assert not read(images, config, ON_BLACK, "off").tolerances.any()


@GROUNDS
@pytest.mark.parametrize("paper", [1.0, 0.8, 0.55])
def test_a_drawing_on_the_other_ground_is_inverted_and_has_no_noise(cleaning, paper):
    """Also on grey paper, and as a codec leaves it; a bold one is known by its edge."""
    images = drawings(20)
    bold = np.zeros((28, 28), np.uint8)
    bold[4:-1, 1:] = 254
    away = np.concatenate(
        [
            images,
            bold.reshape(1, -1),
            coded(images),
        ]
    )
    inverted = (paper * (255 - away)).astype(np.uint8)
    other = on_ground(inverted, cleaning)
    assert not cleaning.inverted(on_ground(away, cleaning), CONFIG).any()
    for pictures in (other, coded(other)):
        found = read(pictures, CONFIG, cleaning, "auto")
        assert found.inverted.all()
        assert not found.noisy.any()
        assert_array_equal(found.images, pictures)


def test_no_inverted_digit_is_named_and_each_other_is():
    model = scanline.load("mnist-small", device="cpu")
    digits = model.sample(4, seed=3).array.reshape(4, -1)
    for pictures in (digits, coded(digits)):
        assert model.classify(pictures, by_bits=False).known.all()
    for paper in (1.0, 0.8, 0.45, 0.2):
        inverted = (paper * (255 - digits)).astype(np.uint8)
        for pictures in (inverted, coded(inverted), coded(inverted, "WEBP")):
            assert not model.classify(pictures, by_bits=False).known.any()


@GROUNDS
@pytest.mark.parametrize(
    ("paper", "frame"),
    [
        (0.5, 0),
        (0.4, 0),
        (0.2, 0),
        (1.0, 1),
        (0.8, 2),
    ],
)
def test_a_drawing_on_grey_paper_or_in_a_dark_frame_has_no_noise(cleaning, paper, frame):
    """Of digits on grey paper 8 of 20 were named wrongly with certainty."""
    scan = (paper * (255.0 - drawings(20))).reshape(20, 28, 28).astype(np.uint8)
    dark = np.ones((28, 28), np.bool_)
    dark[frame : 28 - frame, frame : 28 - frame] = False
    scan[:, dark] = 0
    away = coded(scan.reshape(20, -1))
    difference = np.abs(cleaning.ground - away.astype(np.int16)).astype(np.uint8)
    assert not cleaning.noise(difference, CONFIG).any()


def test_strokes_keep_their_values_where_the_ground_differs_by_two_at_most():
    images = drawings(3)
    strokes = images == 254
    noisy = np.maximum(images, 2)
    noisy[strokes] = 253
    expected = np.where(images <= 2, 0, images)
    expected[strokes] = 253
    assert_array_equal(ON_BLACK.clean(noisy, CONFIG), expected)


def test_strokes_become_even_where_they_differ_no_more_than_the_ground():
    images = drawings(1)
    strokes = images == 254
    noisy = np.maximum(images, 3)
    noisy[strokes] = np.resize([250, 251, 255], strokes.sum())
    expected = np.where(noisy[strokes] == 250, 250, 254)
    assert_array_equal(ON_BLACK.clean(noisy, CONFIG)[strokes], expected)


def test_a_faint_drawing_is_no_noise():
    faint = (drawings(3) / 6).astype(np.uint8)
    assert_array_equal(ON_BLACK.clean(faint, CONFIG), faint)


def test_a_model_of_photographs_cleans_nothing():
    config = small_models.config(height=8, width=8, channels=3)
    assert Cleaning.measure(small_models.images(config, 30), config) is None
