"""The report's classifier learns, is the same for the same seed, does not
recognise noise, and is cached safely.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from scanline.model.datasets import CLASSES
from scanline.model.evaluation import classifier_cache
from scanline.model.evaluation.classifier import (
    classify,
    train_classifier,
)
from scanline.model.evaluation.classifier_cache import (
    cache_path,
    cached_classifier,
    load_cached,
    store,
)
from scanline.model.evaluation.comparison import LabelledData
from tests.support import small_models

SHAPE = (8, 8, 1)


def bars(count, seed):
    """Images [count, 64] of one bright row or column among noise, and which of ten it is."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count).astype(np.uint8)
    images = rng.integers(0, 60, (count, 8, 8), np.uint8)
    for image, label in zip(images, labels, strict=True):
        (image if label < 5 else image.T)[label % 5 + 1] = 255
    return images.reshape(count, 64), labels


TRAINING = bars(2000, 0)
TEST = bars(300, 1)


@pytest.fixture(scope="module")
def trained():
    return train_classifier("cifar10", SHAPE, *TRAINING, 10)


def test_it_distinguishes_classes_in_any_batch_and_recognises_noise_less(
    trained,
):
    found = classify(trained, TEST[0])
    assert (found.classes == TEST[1]).mean() > 0.6
    assert sum(found.class_shares(10)) == pytest.approx(1)
    assert found.features.shape == (300, 64)
    assert_allclose(found.features, classify(trained, TEST[0], batch=7).features, atol=1e-5)
    assert (
        classify(
            trained, np.random.default_rng(2).integers(0, 256, TEST[0].shape, np.uint8)
        ).recognised.mean()
        < 0.1
    )
    assert found.recognised.mean() > 0.3


def test_a_classifier_is_trained_once_and_then_loaded_from_the_cache(tmp_path):
    few = LabelledData("mnist", TRAINING[0][:200], TRAINING[1][:200], *TEST, CLASSES["mnist"])
    config = small_models.config(height=8, width=8)
    cache = tmp_path / "new" / "cache"
    stages = []

    def stage(what, total, unit):
        stages.append(what)
        return lambda done: None

    first, second = (
        cached_classifier(few, config, cache, torch.device("cpu"), stage) for _ in range(2)
    )
    assert stages == ["training the classifier"]
    assert [one.name for one in cache.iterdir()] == [
        cache_path(cache, "mnist", few.training, few.training_labels).name
    ]
    assert_array_equal(classify(first, TEST[0]).features, classify(second, TEST[0]).features)


@pytest.mark.parametrize("damage", ["missing", "cut", "nothing", "another shape"])
def test_a_file_that_holds_no_such_classifier_is_not_used(trained, tmp_path, damage):
    path = tmp_path / "classifier.safetensors"
    store(trained, path)
    assert load_cached(path, SHAPE, 10) is not None
    assert load_cached(path, SHAPE, 9) is None
    data = {"cut": path.read_bytes()[:500], "nothing": b""}.get(damage, path.read_bytes())
    path.write_bytes(data)
    if damage == "missing":
        path.unlink()
    assert load_cached(path, (8, 8, 3) if damage == "another shape" else SHAPE, 10) is None


def test_the_file_is_named_after_the_data_in_xdg_cache_home(tmp_path, monkeypatch):
    images, labels = TRAINING
    other_labels = labels.copy()
    other_images = images.copy()
    other_labels[0] ^= 1
    other_images[0] ^= 1
    data = (TRAINING, (images, other_labels), (other_images, labels))
    assert (
        len(
            {
                cache_path(tmp_path, name, *arrays)
                for arrays in data
                for name in ("mnist", "cifar10")
            }
        )
        == 6
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert classifier_cache.cache_directory() == tmp_path / "scanline"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the specification says to ignore
    assert classifier_cache.cache_directory() == Path.home() / ".cache" / "scanline"
