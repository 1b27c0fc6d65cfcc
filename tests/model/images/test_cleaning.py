"""Noise is removed from pictures of drawings, and pictures without noise stay as they are."""

import io

import numpy as np
import pytest
from PIL import Image

import scanline
from scanline.model.images.cleaning import Cleaning, read
from tests.support import small_models
from tests.support.pictures import encode

CONFIG = small_models.config(height=28, width=28)


def drawings(count: int) -> np.ndarray:
    """Return strokes of 254 with soft edges on 0, [count, 784] uint8."""
    generator = np.random.default_rng(1)
    y, x = np.mgrid[:28, :28]
    images = []
    for _ in range(count):
        slope = generator.uniform(-0.5, 0.5)
        shift = generator.uniform(9, 19)
        away = np.abs(x - shift - slope * (y - 14))
        images.append(np.where(np.abs(y - 14) < 9, 254 * np.clip(2.5 - away, 0, 1), 0))
    return np.stack(images).round().astype(np.uint8).reshape(count, -1)


def coded(images: np.ndarray, **how: object) -> np.ndarray:
    files = (io.BytesIO(encode(image.reshape(28, 28), **how)) for image in images)
    return np.stack([np.asarray(Image.open(file).convert("L")).reshape(-1) for file in files])


@pytest.mark.parametrize(
    "how", [{"kind": "JPEG", "quality": 75}, {"kind": "JPEG"}, {"kind": "WEBP"}]
)
@pytest.mark.parametrize("inverted", [False, True])
def test_the_ground_of_a_coded_drawing_is_even_again(how: dict, inverted: bool) -> None:
    images = 255 - drawings(20) if inverted else drawings(20)
    cleaning = Cleaning.measure(images, CONFIG)
    assert cleaning == Cleaning(255 if inverted else 0, 1 if inverted else 254)
    noisy = coded(images, **how)
    ground = images == cleaning.ground
    assert (noisy[ground] != cleaning.ground).mean() > 0.05
    assert (cleaning.clean(noisy, CONFIG)[ground] != cleaning.ground).mean() < 0.005
    for pictures, clean, expected in ((noisy, "off", noisy), (images, "auto", images)):
        found = read(pictures, CONFIG, cleaning, clean)
        np.testing.assert_array_equal(found.images, expected)
        assert (found.noisy == (pictures is noisy)).all()
        assert not found.tolerances.any()


def test_noisy_pictures_of_a_model_with_a_table_of_values_have_a_tolerance() -> None:
    config = small_models.config(height=28, width=28, predicts="categorical")
    images = np.concatenate([drawings(2), coded(drawings(1), kind="JPEG", quality=30)])
    images[1] = np.maximum(images[1], 3)
    tolerances = read(images, config, Cleaning(0, 254), "auto").tolerances.tolist()
    assert tolerances == [0, 16, 3 * Cleaning(0, 254).noise(images[2:], config)[0] // 2]
    assert tolerances[2] > 16
    assert not read(images, config, Cleaning(0, 254), "off").tolerances.any()


@pytest.mark.parametrize("ground", [0, 255])
@pytest.mark.parametrize("paper", [1.0, 0.8, 0.55])
def test_a_drawing_on_the_other_ground_is_inverted_and_has_no_noise(
    ground: int, paper: float
) -> None:
    """Also on grey paper, and as a codec leaves it; a bold one is known by its edge."""
    images = drawings(20)
    bold = np.zeros((1, 28, 28), np.uint8)
    bold[:, 4:-1, 1:] = 254
    away = np.concatenate([images, bold.reshape(1, -1), coded(images, kind="JPEG")])
    inverted = (paper * (255 - away)).astype(np.uint8)
    own, other = (away, inverted) if ground == 0 else (255 - away, 255 - inverted)
    cleaning = Cleaning(ground, abs(ground - 254))
    assert not cleaning.inverted(own, CONFIG).any()
    assert cleaning.inverted(other, CONFIG).all()
    for pictures in (other, coded(other, kind="JPEG")):
        found = read(pictures, CONFIG, cleaning, "auto")
        assert found.inverted.all()
        assert not found.noisy.any()
        np.testing.assert_array_equal(found.images, pictures)


def test_no_inverted_digit_is_named_and_each_other_is() -> None:
    model = scanline.load("mnist-small", device="cpu")
    digits = model.sample(4, seed=3).array.reshape(4, -1)
    for pictures in (digits, coded(digits, kind="JPEG")):
        assert model.classify(pictures, by_bits=False).known.all()
    for paper in (1.0, 0.8, 0.45, 0.2):
        inverted = (paper * (255 - digits)).astype(np.uint8)
        for pictures in (inverted, coded(inverted, kind="JPEG"), coded(inverted, kind="WEBP")):
            assert not model.classify(pictures, by_bits=False).known.any()


@pytest.mark.parametrize("ground", [0, 255])
@pytest.mark.parametrize(("paper", "frame"), [(0.5, 0), (0.4, 0), (0.2, 0), (1.0, 1), (0.8, 2)])
def test_a_drawing_on_grey_paper_or_in_a_dark_frame_has_no_noise(
    ground: int, paper: float, frame: int
) -> None:
    """Of digits on grey paper 8 of 20 were named wrongly with certainty."""
    away = drawings(20).astype(np.float64).reshape(20, 28, 28)
    scan = np.zeros((20, 28, 28))
    inside = slice(frame, 28 - frame)
    scan[:, inside, inside] = paper * (255 - away[:, inside, inside])
    scan = coded(scan.reshape(20, 784).astype(np.uint8), kind="JPEG")
    cleaning = Cleaning(ground, abs(254 - ground))
    assert not cleaning.noise(np.abs(ground - scan.astype(np.int16)).astype(np.uint8), CONFIG).any()


def test_strokes_keep_their_values_where_the_ground_differs_by_two_at_most() -> None:
    images = drawings(3)
    shifted = np.maximum(images, 2)
    shifted[images == 254] = 253
    expected = np.where(images == 254, 253, images)
    np.testing.assert_array_equal(
        Cleaning(0, 254).clean(shifted, CONFIG), np.where(expected <= 2, 0, expected)
    )


def test_strokes_become_even_where_they_differ_no_more_than_the_ground() -> None:
    images = np.maximum(drawings(1), 3)
    images[images == 254] = [250, 251, 255] * ((images == 254).sum() // 3) + [254] * (
        (images == 254).sum() % 3
    )
    cleaned = Cleaning(0, 254).clean(images, CONFIG)
    np.testing.assert_array_equal(cleaned[images > 250], 254)
    np.testing.assert_array_equal(cleaned[images == 250], 250)


def test_a_faint_drawing_is_no_noise_and_a_model_of_photographs_cleans_nothing() -> None:
    faint = (drawings(3) / 6).astype(np.uint8)
    np.testing.assert_array_equal(Cleaning(0, 254).clean(faint, CONFIG), faint)
    config = small_models.config(height=8, width=8, channels=3)
    assert Cleaning.measure(small_models.images(config, 30), config) is None
