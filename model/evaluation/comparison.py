"""The comparison of samples of a model and test images, each measured in the same ways."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from scanline.model.base.sampling_options import Defaults
from scanline.model.datasets import CLASSES
from scanline.model.evaluation.classifier import Classifier, Predictions, classify
from scanline.model.evaluation.neighbours import Nearest, nearest
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.offline import RunOptions, paint, paint_request
from scanline.model.tasks.paint import PaintedImages

MIN_EACH = 50  # images on each side: fewer say nothing about a distribution
PLAIN = Defaults()

# (what, total, unit) -> a callback that gets the number done
Stage = Callable[[str, int, str], Callable[[int], None]]


@dataclass(frozen=True)
class LabelledData:
    """A data set with its labels, in the order of its classes."""

    dataset: str
    training: np.ndarray  # [t, N] uint8
    training_labels: np.ndarray  # [t], from 0
    test: np.ndarray  # [m, N] uint8
    test_labels: np.ndarray  # [m], from 0
    names: tuple[str, ...]  # K, of the classes

    @property
    def is_published(self) -> bool:
        """Whether it is a published set, by whose name a classifier may be cached."""
        return self.dataset in CLASSES


@dataclass(frozen=True)
class Comparison:
    """Samples and test images with their measurements.

    Half of the test images take the place of samples for comparison; both are compared with the
    other half.
    """

    data: LabelledData
    seed: int
    painted: PaintedImages  # n samples
    test_bits: np.ndarray  # [m] float64, bits/dim of the test images
    # [k] indices of the test images in the place of samples: k = n, or m / 2 where that is less
    chosen: np.ndarray
    others: np.ndarray  # [m - m/2] indices of the test images that both are compared with
    sample_predictions: Predictions
    by_default: tuple[Defaults, Predictions] | None  # of n images; None where defaults are plain
    test_predictions: Predictions  # of all m
    sample_neighbours: Nearest  # among the training images
    test_neighbours: Nearest  # of the chosen, among the training images


def check_counts(samples: int, test_images: int) -> None:
    """Raise ValueError where there are too few images for a comparison."""
    if samples < MIN_EACH:
        raise ValueError(
            f"--samples must be 0 or at least {MIN_EACH}, not {samples}: fewer say nothing about a model"
        )
    if test_images < 2 * MIN_EACH:
        raise ValueError(
            f"{test_images} test images are too few to compare with; use at least {2 * MIN_EACH}, or --samples 0"
        )


def halves(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of `count` test images in two parts, shuffled: the halves of a published
    set may differ."""
    shuffled = np.random.default_rng(seed).permutation(count)
    return shuffled[: count // 2], shuffled[count // 2 :]


def compare(
    model: Transformer,
    classifier: Classifier,
    data: LabelledData,
    test_bits: np.ndarray,
    samples: int,
    *,
    seed: int,
    defaults: Defaults = PLAIN,
    stage: Stage = lambda what, total, unit: lambda done: None,
    **options: Unpack[RunOptions],
) -> Comparison:
    """Paint `samples` images, and measure them and the test images.

    test_bits [m] float64 are the model's bits/dim of the test images. defaults: the model's; where
    they are not plain, as many images are painted with them. ValueError where there are too few
    images.
    """
    # Half of the test images stand in the place of samples, the others are what both are compared
    # with: so each measure has a value that no model can be expected to surpass.
    check_counts(samples, len(data.test))
    half, others = halves(len(data.test), seed)
    chosen = half[:samples]
    config = model.config
    pool = data.training

    # Paint: samples at temperature 1, which the measures are about.
    progress = stage("painting samples", samples * config.bytes, "bytes")
    painted = paint(model, samples, seed=seed, progress=progress, options=options)

    # Classify what was painted and the test images. A model whose defaults are not plain is judged
    # with them as well, since that is what its users see.
    progress = stage("classifying samples", samples, "images")
    sample_predictions = classify(classifier, painted.images, progress=progress)
    choice = defaults.to_paint(config)
    by_default = None
    if choice != PLAIN.to_paint(config):
        progress = stage("painting as the model's defaults say", samples * config.bytes, "bytes")
        request = GenerateRequest(0, samples, seed, **vars(choice))
        images = paint_request(model, request, progress=progress, **options).images
        by_default = defaults, classify(classifier, images)
    progress = stage("classifying test images", len(data.test), "images")
    test_predictions = classify(classifier, data.test, progress=progress)

    # The nearest training images show whether samples are copies; those of test images, how near is
    # ordinary.
    progress = stage("neighbours of samples", len(pool), "training images")
    sample_neighbours = nearest(painted.images, pool, 1, model.device, progress)
    progress = stage("neighbours of test images", len(pool), "training images")
    test_neighbours = nearest(data.test[chosen], pool, 1, model.device, progress)
    return Comparison(
        data=data,
        seed=seed,
        painted=painted,
        test_bits=test_bits,
        chosen=chosen,
        others=others,
        sample_predictions=sample_predictions,
        by_default=by_default,
        test_predictions=test_predictions,
        sample_neighbours=sample_neighbours,
        test_neighbours=test_neighbours,
    )
