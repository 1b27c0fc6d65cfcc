"""All that a report is made of: the model's samples, the test images, and what was seen in both."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scanline.model.evaluation.classifier import Classifier, Looks, look
from scanline.model.evaluation.completions import Completions, complete
from scanline.model.evaluation.neighbours import Nearest, nearest
from scanline.model.network.transformer import Transformer
from scanline.model.precision import DEFAULT
from scanline.model.sampling.offline import Painted, paint

LEAST = 50  # images on a side: fewer tell nothing of a distribution
NEIGHBOURS = 5  # of each sample
CLOSE = 0.01  # a sample is close to the training set where so few test images are closer
COMPLETED, COMPLETIONS = 8, 6  # test images, and how often each is completed

Stage = Callable[[str, int, str], Callable[[int], None]]  # what, how many, of what -> told how many are done


@dataclass(frozen=True)
class Evidence:
    """Samples and the test images that they stand against; `chosen` of these stand where the samples stand."""

    dataset: str
    seed: int
    painted: Painted  # n samples
    test: np.ndarray  # [m, N] uint8, all of them
    test_labels: np.ndarray  # [m] uint8
    test_bits: np.ndarray  # [m] float64, bits per dimension
    chosen: np.ndarray  # [k] places in the test images, k = n or half of m where that is less
    others: np.ndarray  # [m - m/2] places of the half that both are compared with
    sample_looks: Looks
    test_looks: Looks
    sample_neighbours: Nearest  # in the training images
    test_neighbours: Nearest  # of the chosen
    training: np.ndarray  # [t, N] uint8
    completions: Completions


def check_counts(samples: int, test_images: int) -> None:
    """ValueError where there are too few for any figure."""
    if samples < LEAST:
        raise ValueError(
            f"--samples must be 0 or at least {LEAST}, not {samples}: fewer tell nothing of a distribution"
        )
    if test_images < 2 * LEAST:
        raise ValueError(
            f"{test_images} test images are too few to stand against; at least {2 * LEAST}, or --samples 0"
        )


def gather(
    model: Transformer,
    classifier: Classifier,
    dataset: str,
    training: np.ndarray,
    test: np.ndarray,
    test_labels: np.ndarray,
    test_bits: np.ndarray,
    samples: int,
    seed: int,
    precision: str = DEFAULT,
    stage: Stage = lambda what, total, unit: lambda done: None,
) -> Evidence:
    """Paints `samples` images and looks at them; training [t, N], test [m, N] uint8, test_bits [m] of the model."""
    check_counts(samples, len(test))
    shuffled = np.random.default_rng(seed).permutation(len(test))  # the halves of a published set may differ
    half = len(test) // 2
    chosen, others = shuffled[: min(half, samples)], shuffled[half:]
    size = model.config.bytes
    painted = paint(
        model, samples, seed=seed, precision=precision, progress=stage("painting samples", samples * size, "bytes")
    )
    completions = complete(
        model,
        test[others[:COMPLETED]],
        COMPLETIONS,
        seed=seed,
        precision=precision,
        progress=stage("completing", COMPLETED * COMPLETIONS * size, "bytes"),
    )
    sample_looks = look(classifier, painted.images, progress=stage("looking at samples", samples, "images"))
    test_looks = look(classifier, test, progress=stage("looking at test images", len(test), "images"))
    return Evidence(
        dataset,
        seed,
        painted,
        test,
        test_labels,
        test_bits,
        chosen,
        others,
        sample_looks,
        test_looks,
        nearest(
            painted.images,
            training,
            NEIGHBOURS,
            model.device,
            stage("neighbours of samples", len(training), "training images"),
        ),
        nearest(
            test[chosen],
            training,
            1,
            model.device,
            stage("neighbours of test images", len(training), "training images"),
        ),
        training,
        completions,
    )
