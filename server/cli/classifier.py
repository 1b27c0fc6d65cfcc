"""The classifier of `scanline evaluate`: from the cache, or trained under the progress bar and kept there."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

    from scanline.model.config import ModelConfig
    from scanline.model.evaluation.classifier import Classifier
    from scanline.model.evaluation.samples import Stage

SEED = 0


def classifier_of(
    dataset: str,
    config: "ModelConfig",
    images: np.ndarray,
    labels: np.ndarray,
    cache: Path | None,
    device: "torch.device",
    stage: "Stage",
) -> "Classifier":
    """The one of these training images [n, N] and labels [n], always the same on one machine."""
    from scanline.model.evaluation.classifier_cache import check_writable, default_directory, keep, path_of, recall
    from scanline.model.evaluation.train_classifier import teach, updates

    shape = (config.height, config.width, config.channels)
    path = path_of(cache or default_directory(), dataset, images, labels, SEED)
    found = recall(path, shape)
    if found is None:
        check_writable(path)
        total = updates(dataset, len(images))
        progress = stage("training the classifier", total, "updates")
        found = teach(dataset, shape, images, labels, SEED, device, progress)
        keep(found, path)
    return found.to(device)
