"""The cache of trained classifiers: safetensors files named after the data, its checksum and the
recipe.

A file that does not hold what its name says is ignored and overwritten.
"""

import os
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from scanline.model.base.atomic import write_file
from scanline.model.base.config import ModelConfig
from scanline.model.base.named_files import read_file
from scanline.model.evaluation.classifier import RECIPE, Classifier, train_classifier, update_count
from scanline.model.evaluation.comparison import LabelledData, Stage

SEED = 0


def cached_classifier(
    data: LabelledData, config: ModelConfig, cache: Path | None, device: torch.device, stage: Stage
) -> Classifier:
    """Return the classifier of the training images: from the cache, or trained and cached.

    cache: the directory, the user's own where it is None. OSError, before any training,
    where nothing can be written there.
    """
    shape = (config.height, config.width, config.channels)
    name = data.dataset if data.is_published else "own"
    path = cache_path(cache or cache_directory(), name, data.training, data.training_labels)
    count = len(data.names)
    classifier = load_cached(path, shape, count)
    if classifier is None:
        _check_writable(path)
        updates = update_count(data.dataset, len(data.training))
        progress = stage("training the classifier", updates, "updates")
        classifier = train_classifier(
            data.dataset, shape, data.training, data.training_labels, count, SEED, device, progress
        )
        store(classifier, path)
    return classifier.to(device)


def cache_directory() -> Path:
    """Return the user's cache directory for Scanline, which honours XDG_CACHE_HOME; ValueError
    where there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        if not cache.is_absolute():
            cache = Path.home() / ".cache"
    except RuntimeError:
        raise ValueError(
            "there is no home directory for trained classifiers; give --cache, or --samples 0"
        ) from None
    return cache / "scanline"


def cache_path(directory: Path, dataset: str, images: np.ndarray, labels: np.ndarray) -> Path:
    """Return the file of the classifier of these images and labels."""
    digest = sha256(np.ascontiguousarray(images).data)
    digest.update(np.ascontiguousarray(labels).data)
    data = digest.hexdigest()[:16]
    return directory / f"classifier-{dataset}-{data}-recipe{RECIPE}-seed{SEED}.safetensors"


def load_cached(path: Path, shape: tuple[int, int, int], classes: int) -> Classifier | None:
    """Return the classifier of a file; None where the file is missing or holds something else."""
    classifier = Classifier(*shape, classes)
    try:
        classifier.load_state_dict(load(read_file(path)))
    except (OSError, SafetensorError, RuntimeError):
        return None
    return classifier.eval().requires_grad_(False)


def store(classifier: Classifier, path: Path) -> None:
    """Write a classifier to the cache, atomically."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in classifier.state_dict().items()}
    write_file(path, save(tensors))


def _check_writable(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    attempt = path.with_name(f"{path.name}.try")
    write_file(attempt, b"")
    attempt.unlink()
