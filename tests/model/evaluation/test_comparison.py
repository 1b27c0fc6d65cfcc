"""The comparison: samples stand where as many test images stand; distances and neighbours."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from scanline.model.base.sampling_options import Defaults
from scanline.model.datasets import CLASSES
from scanline.model.evaluation import neighbours
from scanline.model.evaluation.classifier import Classifier, classify
from scanline.model.evaluation.comparison import LabelledData, compare
from scanline.model.evaluation.likelihood import bits_per_dim
from scanline.model.evaluation.metrics import (
    bootstrap_error,
    frechet_distance,
    precision_recall,
    quality,
    seed_figures,
)
from scanline.model.evaluation.neighbours import nearest
from scanline.model.tasks.offline import paint
from tests.support import small_models

CONFIG = small_models.config(height=6, width=5, layers=1)
MODEL = small_models.model(CONFIG)
CLASSIFIER = Classifier(6, 5, 1, 10)
TRAINING = small_models.images(CONFIG, 150, seed=1)
TEST = small_models.images(CONFIG, 131, seed=2)
DATA = LabelledData(
    "mnist",
    TRAINING,
    np.zeros(150, np.uint8),
    TEST,
    np.zeros(131, np.uint8),
    CLASSES["mnist"],
)


def comparison(samples=60):
    return compare(MODEL, CLASSIFIER, DATA, bits_per_dim(MODEL, TEST), samples, seed=4)


@pytest.fixture(scope="module")
def found():
    return comparison()


def with_samples(found, images):
    """The same comparison, had the model painted `images`."""
    return replace(
        found,
        painted=replace(
            found.painted, images=images, bits_per_dim=found.painted.bits_per_dim[: len(images)]
        ),
        sample_predictions=classify(CLASSIFIER, images),
        sample_neighbours=nearest(images, TRAINING, 1),
    )


def test_test_images_as_samples_have_the_numbers_of_test_images(found):
    numbers = quality(with_samples(found, TEST[found.chosen]))
    distance = numbers["frechet_distance"]
    near = numbers["nearest_training_image"]
    assert distance["samples"] == pytest.approx(distance["test_images"])
    assert distance["of_samples"] == pytest.approx(distance["of_test_images"])
    assert near["samples_median"] == near["test_images_median"]
    assert near["samples_close"] == pytest.approx(0.01, abs=0.01)


def test_seeds_have_the_spread_of_their_figures(found):
    first = quality(found)
    second = quality(compare(MODEL, CLASSIFIER, DATA, found.test_bits, 60, seed=5))
    figures = seed_figures([first, second])
    assert figures["seeds"] == [4, 5]
    both = [numbers["frechet_distance"]["samples"] for numbers in (first, second)]
    assert figures["frechet_distance"]["mean"] == pytest.approx(sum(both) / 2)
    deviation = abs(both[0] - both[1]) / 2**0.5
    assert figures["frechet_distance"]["standard_deviation"] == pytest.approx(deviation)


def test_memorised_images_are_found(found):
    samples = found.painted.images.copy()
    samples[:20] = TRAINING[30:50]
    samples[20:40] = np.clip(TRAINING[50:70].astype(int) + 1, 0, 255)  # nearly copies
    near = quality(with_samples(found, samples))["nearest_training_image"]
    assert near["copies"] == 20
    assert near["samples_close"] >= 40 / 60
    assert near["samples_least"] == 0
    assert near["close_is_below"] > 1


def test_what_the_models_defaults_paint_has_the_figures_of_samples(found):
    assert quality(found)["default"] is None, "a model without defaults paints the samples"
    colder = Defaults(temperature=0.5)
    compared = compare(
        MODEL,
        CLASSIFIER,
        DATA,
        found.test_bits,
        60,
        seed=4,
        defaults=colder,
    )
    as_samples = with_samples(found, paint(MODEL, 60, seed=4, temperature=0.5).images)
    numbers = quality(compared)
    expected = quality(as_samples)
    assert numbers["frechet_distance"] == quality(found)["frechet_distance"]
    assert numbers["default"] == {
        "class": "none",
        "guidance": 1,
        "best_of": 1,
        "temperature": 0.5,
        "frechet_distance": expected["frechet_distance"]["samples"],
        "recognisable": expected["recognisable"]["samples"],
    }


RNG = np.random.default_rng(0)


def test_simple_clouds_are_at_the_distance_of_their_closed_form():
    features = RNG.standard_normal((300, 8)) * 5
    shift = np.arange(8) / 3
    values = RNG.standard_normal((100, 1))
    assert frechet_distance(features, features[::-1]) == pytest.approx(0, abs=1e-6)
    assert frechet_distance(features, features + shift) == pytest.approx(np.square(shift).sum())
    assert frechet_distance(features + shift, features) == pytest.approx(np.square(shift).sum())
    assert frechet_distance(np.zeros((10, 5)), np.full((10, 5), 2.0)) == pytest.approx(20)
    one_feature = 4 * values.var(ddof=1) + 4 * values.mean() ** 2
    assert frechet_distance(values, 3 * values) == pytest.approx(one_feature)
    assert frechet_distance(3 * values, values) == pytest.approx(one_feature)
    large = features * 1e6 + 1e7
    assert frechet_distance(large, large.copy()) >= 0


def test_the_bootstrap_gives_the_spread_over_clouds_drawn_anew():
    distances = []
    for _ in range(60):
        clouds = RNG.standard_normal((2, 200, 3))
        distances.append(frechet_distance(clouds[0] + 1, clouds[1]))
    clouds = RNG.standard_normal((2, 200, 3))
    error = bootstrap_error(frechet_distance, clouds[0] + 1, clouds[1])
    assert error == pytest.approx(np.std(distances), rel=0.4)


def test_precision_falls_with_what_is_off_and_recall_with_what_is_missing():
    left = RNG.standard_normal((200, 4))
    right = left + 100
    both = np.concatenate((left[:100], right[:100]))
    assert precision_recall(left, left[::-1]) == {"precision": 1, "recall": 1}
    assert precision_recall(left, right) == {"precision": 0, "recall": 0}
    off = precision_recall(both, left)
    missing = precision_recall(left, both)
    assert off["precision"] == pytest.approx(0.5, abs=0.03)
    assert off["recall"] > 0.8
    assert missing["precision"] > 0.8
    assert missing["recall"] == pytest.approx(0.5, abs=0.03)


def noise(count, seed, size=30):
    return np.random.default_rng(seed).integers(0, 256, (count, size), np.uint8)


@pytest.mark.parametrize("block", [7, 64, 1000])
def test_as_a_plain_search(monkeypatch, block):
    monkeypatch.setattr(neighbours, "BLOCK", block)
    images = noise(20, 0)
    pool = noise(100, 1)
    seen = []
    found = nearest(images, pool, 4, progress=seen.append)
    distances = np.sqrt(np.square(images[:, None].astype(float) - pool[None]).mean(axis=2))
    assert_allclose(found.distances, np.sort(distances, axis=1)[:, :4])
    assert_allclose(np.take_along_axis(distances, found.indices, axis=1), found.distances)
    assert seen == [*range(block, 100, block), 100]
    assert nearest(images, pool[:2], 5).indices.shape == (20, 2)
