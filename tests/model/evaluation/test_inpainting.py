"""The table of completions: parts of test images are hidden, and painted by particles."""

import numpy as np
import pytest

from scanline.model.evaluation.classifier import Classifier, classify
from scanline.model.evaluation.inpainting import PARTICLES, hidden_parts, inpainting_figures
from scanline.model.tasks.offline import paint
from tests.support import small_models

CONFIG = small_models.config(height=6, width=5, layers=1)
MODEL = small_models.model(CONFIG)
IMAGES = small_models.images(CONFIG, 1, seed=2)


def test_a_part_is_hidden_and_the_rest_known():
    band, left, centre = hidden_parts(CONFIG).values()
    assert np.flatnonzero(band.all(axis=1)).tolist() == [2, 3]
    assert np.flatnonzero(left.all(axis=0)).tolist() == [0, 1]
    assert np.argwhere(centre)[[0, -1]].tolist() == [[1, 1], [4, 3]]
    assert [part.sum() for part in (band, left, centre)] == [10, 12, 12]


def test_rows_have_the_bits_of_the_known_pixels_and_the_class_of_the_completion():
    classifier = Classifier(6, 5, 1, 10)
    labels = np.array([3])
    silent = lambda what, total, unit: lambda done: None  # noqa: E731
    table = inpainting_figures(MODEL, IMAGES, classifier, labels, 4, silent)
    assert (table["images"], len(table["rows"])) == (1, 3 * len(PARTICLES))
    for row in table["rows"]:
        known = ~hidden_parts(CONFIG)[row["hidden"]].reshape(-1)
        painted = paint(MODEL, 1, seed=4, known=IMAGES[0], mask=known, particles=row["particles"])
        assert row["bits_per_known_dim"] == pytest.approx(painted.evidence_bits[0] / known.sum())
        is_right = classify(classifier, painted.images).classes == labels
        assert row["as_original"] == is_right.mean()
    assert "as_original" not in inpainting_figures(MODEL, IMAGES, None, None, 4, silent)["rows"][0]
