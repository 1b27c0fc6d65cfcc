"""Fitting a class head: it learns what the features say, from training images alone, and in the same way each time."""

import numpy as np
import torch

from scanline.model.network.transformer import Transformer
from scanline.model.training.class_head import fit_class_head
from tests.support import small_models


def shaded(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noise [count, 20] uint8 and labels [count] of 1 to 3: brighter above, below or nowhere."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(1, 4, count)
    images = rng.integers(0, 180, (count, 4, 5))
    images[:, :2][labels == 1] += 75
    images[:, 2:][labels == 2] += 75
    return images.reshape(count, 20).astype(np.uint8), labels


def test_the_classes_of_other_images_are_read_and_their_probabilities_are_calibrated() -> None:
    model = small_models.model(
        small_models.config(mirrored=True, **small_models.VARIANTS["strokes"], **small_models.CLASSES)
    )
    images, labels = shaded(600, seed=0)
    read: list[int] = []
    model.class_head, share = fit_class_head(model, images, labels, progress=read.append)
    tests, truth = shaded(600, seed=1)
    posterior = model.class_logits(torch.from_numpy(tests)).softmax(dim=1)
    right = (posterior.argmax(dim=1) == torch.from_numpy(truth) - 1).float()
    assert right.mean() > 0.8
    assert abs(share - right.mean()) < 0.15
    assert abs(posterior.max(dim=1).values.mean() - right.mean()) < 0.06
    assert read[-1] == 600
    again, _ = fit_class_head(model, images, labels)
    assert all(torch.equal(tensor, again.tensors[name]) for name, tensor in model.class_head.tensors.items())


def test_few_images_are_enough_and_no_more_than_asked_for_are_read() -> None:
    model: Transformer = small_models.model(small_models.config(**small_models.CLASSES))
    images, labels = shaded(40, seed=2)
    read: list[int] = []
    fit_class_head(model, images, labels, 3, read.append)
    assert read == [3]
    head, _ = fit_class_head(model, images[:1], labels[:1])
    assert all(tensor.isfinite().all() for tensor in head.tensors.values())
