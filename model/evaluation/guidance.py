"""Effect of guidance, and of a choice between candidates, on samples of each class:
recognisability and variety.

Samples painted in each way, plainly among them, are compared with test images. A way that only
made the samples of a class alike would also make them easier to recognise, so that the shares say
little without the distance within classes. Samples that show another class than the one asked for
raise it; it is therefore also measured without them.
"""

from typing import Any

import numpy as np

from scanline.model.base.sampling_options import SamplingParams
from scanline.model.evaluation.classes import ClassMeasurements
from scanline.model.evaluation.classifier import Predictions
from scanline.model.evaluation.comparison import halves
from scanline.model.evaluation.metrics import (
    bootstrap_error,
    frechet_distance,
    precision_recall,
    standard_error,
)


def guidance_figures(
    measured: ClassMeasurements,
    labels: np.ndarray,
    tests: Predictions,
    seed: int,
    default: SamplingParams,
) -> dict[str, Any]:
    """Return the table as evaluation.json holds it under "guidance": a row for each way, the
    plain one first, and one for test images.

    labels: [m], the class of each test image, of which `tests` are the predictions. seed: of the
    halves of these. Shares are of all samples and of all test images. The Fréchet distance to half of the test
    images and the distance within classes are those of equally many images of each class: of the
    first samples, and of the first images of the other half.
    """
    assert measured.samples is not None
    of_each = measured.samples.of_each
    count = len(measured.names)
    half, others = halves(len(labels), seed)
    half.sort()
    reference = tests.features[others]
    chosen = [half[labels[half] == k][:of_each] for k in range(count)]
    first = np.concatenate([k * of_each + np.arange(len(chosen[k])) for k in range(count)])
    rows = []
    for samples in (measured.samples, *measured.others):
        way = {
            **samples.way.used,
            "best_of": samples.way.best_of,
            "default": samples.way == default,
        }
        rows.append(way | _row(samples.predictions, samples.asked, first, reference))
    return {
        "each": of_each,
        "seed": measured.samples.seed,
        "compared": len(first),
        "against": len(reference),
        "rows": rows,
        "test_images": _row(tests, labels, np.concatenate(chosen), reference),
    }


def _row(
    seen: Predictions, classes: np.ndarray, compared: np.ndarray, reference: np.ndarray
) -> dict[str, Any]:
    """Return the figures of images of `classes` [n]: shares of all, distances of those at the
    indices `compared`."""
    is_right = seen.classes == classes
    right = compared[is_right[compared]]
    features = seen.features
    return {
        "recognisable": float(seen.recognised.mean()),
        "as_asked": float(is_right.mean()),
        "standard_error": standard_error(is_right),
        "frechet_distance": frechet_distance(features[compared], reference),
        "frechet_error": bootstrap_error(frechet_distance, features[compared], reference),
        **precision_recall(features[compared], reference),
        "within_class_distance": within_class_distance(features[compared], classes[compared]),
        "within_class_distance_as_asked": within_class_distance(features[right], classes[right]),
    }


def within_class_distance(features: np.ndarray, classes: np.ndarray) -> float:
    """Return the distance of features [n, F] from the mean of those of their class [n]: its mean in
    each class, and the mean of these. It is 0 where all images of a class are alike, or there are
    none."""
    distances = []
    for k in np.unique(classes):
        of_class = features[classes == k]
        distances.append(np.linalg.norm(of_class - of_class.mean(axis=0), axis=1).mean())
    return float(np.mean(distances)) if distances else 0.0
