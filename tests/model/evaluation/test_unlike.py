"""How well other pictures are told from test images."""

import numpy as np
import pytest

from scanline.model.evaluation.likelihood import bits_per_dim
from scanline.model.evaluation.metrics import test_figures as figures_of
from scanline.model.evaluation.unlike import auroc, other_pictures, unlike_figures
from tests.support import small_models

CONFIG = small_models.config(height=6, width=5, layers=1, **small_models.CLASSES)
MODEL = small_models.model(CONFIG)


def test_the_area_is_the_share_of_pairs_in_order():
    rng = np.random.default_rng(0)
    tests = rng.integers(0, 9, 40)
    others = rng.integers(3, 12, 30)
    pairs = np.sign(others[:, None] - tests[None])
    assert auroc(tests, others) == pytest.approx((pairs + 1).mean() / 2)
    assert (auroc(tests, tests + 20), auroc(tests, tests - 20)) == (1, 0)


def test_test_images_are_not_told_from_themselves_and_noise_is(tmp_path):
    images = np.random.default_rng(1).integers(0, 4, (90, 6, 5), np.uint8)
    np.save(tmp_path / "dark.npy", images)
    dark = other_pictures(tmp_path / "dark.npy", CONFIG, 50)
    assert {image.tobytes() for image in dark} <= {image.tobytes() for image in images}
    assert len(dark) == 50
    noise = np.random.default_rng(2).integers(0, 256, (50, 30), np.uint8)
    bits = bits_per_dim(MODEL, dark)
    silent = lambda what, total, unit: lambda done: None  # noqa: E731
    measured = figures_of(bits, dark, CONFIG)
    same, other = unlike_figures(
        MODEL, {"same": dark, "noise": noise}, dark, bits, measured, silent
    )
    assert same["auroc_of_bits"] == same["auroc_of_tails"] == 0.5
    assert same["typical"] == same["typical_test_images"]
    assert other["auroc_of_bits"] == auroc(bits, bits_per_dim(MODEL, noise))
    assert other["auroc_of_tails"] > 0.9
