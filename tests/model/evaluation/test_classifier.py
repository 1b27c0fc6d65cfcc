"""The report's classifier: it learns, it is the same for the same seed, and what is kept of it is checked."""

from pathlib import Path

import numpy as np
import pytest
import torch

from scanline.model.evaluation.classifier import look
from scanline.model.evaluation.classifier_cache import check_writable, default_directory, keep, path_of, recall
from scanline.model.evaluation.train_classifier import teach, updates

SHAPE = (8, 8, 1)


def bars(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images [count, 64] of one bright row or column among noise, and which of ten it is."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count).astype(np.uint8)
    images = rng.integers(0, 60, (count, 8, 8), np.uint8)
    for image, label in zip(images, labels, strict=True):
        (image if label < 5 else image.T)[label % 5 + 1] = 255
    return images.reshape(count, 64), labels


TRAINING, TEST = bars(3000, 0), bars(300, 1)


@pytest.fixture(scope="module")
def taught() -> torch.nn.Module:
    return teach("mnist", SHAPE, *TRAINING)


def test_it_learns_to_tell_classes_apart(taught: torch.nn.Module) -> None:
    looks = look(taught, TEST[0])
    assert (looks.classes == TEST[1]).mean() > 0.6
    assert sum(looks.class_shares) == pytest.approx(1)
    assert looks.features.shape == (300, 64)


def test_the_same_seed_is_the_same_classifier() -> None:
    few = TRAINING[0][:300], TRAINING[1][:300]
    torch.manual_seed(5)
    first = teach("cifar10", SHAPE, *few, seed=3).state_dict()
    torch.manual_seed(6)
    second, other = (teach("cifar10", SHAPE, *few, seed=seed).state_dict() for seed in (3, 4))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_teaching_changes_neither_images_nor_the_random_stream() -> None:
    images = TRAINING[0][:200].copy()
    before = torch.get_rng_state()
    teach("cifar10", SHAPE, images, TRAINING[1][:200])
    np.testing.assert_array_equal(images, TRAINING[0][:200])
    assert torch.equal(before, torch.get_rng_state())


def test_what_it_sees_does_not_depend_on_the_batch(taught: torch.nn.Module) -> None:
    whole, split = look(taught, TEST[0]), look(taught, TEST[0], batch=7)
    np.testing.assert_allclose(whole.features, split.features, atol=1e-5)


def test_progress_ends_at_the_last_update() -> None:
    seen: list[int] = []
    teach("mnist", SHAPE, TRAINING[0][:150], TRAINING[1][:150], progress=seen.append)
    assert seen == list(range(1, updates("mnist", 150) + 1))


def test_what_is_kept_is_what_is_recalled(taught: torch.nn.Module, tmp_path: Path) -> None:
    path = path_of(tmp_path / "new" / "cache", "mnist", *TRAINING, seed=0)
    assert recall(path, SHAPE) is None
    check_writable(path)
    assert list(path.parent.iterdir()) == []
    keep(taught, path)
    recalled = recall(path, SHAPE)
    assert recalled is not None
    np.testing.assert_array_equal(look(recalled, TEST[0]).features, look(taught, TEST[0]).features)


@pytest.mark.parametrize("damage", ["cut", "noise", "nothing", "another shape"])
def test_a_file_that_is_no_classifier_is_not_used(taught: torch.nn.Module, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "classifier.safetensors"
    keep(taught, path)
    data = {"cut": path.read_bytes()[:500], "noise": b"hello" * 99, "nothing": b""}.get(damage, path.read_bytes())
    path.write_bytes(data)
    assert recall(path, (8, 8, 3) if damage == "another shape" else SHAPE) is None


def test_the_file_is_named_after_the_data(tmp_path: Path) -> None:
    images, labels = TRAINING
    other = labels.copy()
    other[0] ^= 1
    paths = {path_of(tmp_path, "mnist", *data, seed=seed) for data in (TRAINING, (images, other)) for seed in (0, 1)}
    assert len(paths) == 4


def test_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory() == tmp_path / "scanline"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # which the specification says to ignore
    assert default_directory() == Path.home() / ".cache" / "scanline"
