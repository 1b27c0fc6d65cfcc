"""What guidance does to samples of each class: are they recognised more often, and do they vary less?

Samples painted with each weight, those without guidance among them, are measured beside test images. Guidance that only
made the samples of a class alike would also make them easier to recognise, so that the shares say little without the
distance within classes.
"""

from typing import Any

import numpy as np

from scanline.model.evaluation.classes import ClassMeasurements
from scanline.model.evaluation.classifier import Predictions
from scanline.model.evaluation.comparison import Comparison
from scanline.model.evaluation.metrics import frechet_distance


def guidance_figures(found: ClassMeasurements, compared: Comparison) -> dict[str, Any]:
    """Return the table as evaluation.json holds it under "guidance": a row for each weight, 1 first, and one for test
    images.

    Shares are of all samples and of all test images. The Fréchet distance to half of the test images and the distance
    within classes are those of equally many images of each class: of the first samples, and of the first images of the
    other half.
    """
    assert found.samples is not None
    each, count = found.samples.each, len(found.names)
    labels, tests = compared.data.test_labels, compared.test_predictions
    reference = tests.features[compared.others]
    half = np.setdiff1d(np.arange(len(labels)), compared.others)
    chosen = [half[labels[half] == k][:each] for k in range(count)]
    first = np.concatenate([k * each + np.arange(len(chosen[k])) for k in range(count)])
    return {
        "each": each,
        "seed": found.samples.seed,
        "compared": len(first),
        "against": len(reference),
        "rows": [
            {"guidance": one.guidance, **_row(one.predictions, one.asked, first, reference)}
            for one in (found.samples, *found.guided)
        ],
        "test_images": _row(tests, labels, np.concatenate(chosen), reference),
    }


def _row(seen: Predictions, classes: np.ndarray, compared: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Return the figures of images of `classes` [n]: shares of all, distances of those at the indices `compared`."""
    return {
        "recognisable": float(seen.recognised.mean()),
        "as_asked": float((seen.classes == classes).mean()),
        "frechet_distance": frechet_distance(seen.features[compared], reference),
        "within_class_distance": within_class_distance(seen.features[compared], classes[compared]),
    }


def within_class_distance(features: np.ndarray, classes: np.ndarray) -> float:
    """Return the distance of features [n, F] from the mean of those of their class [n]: its mean in each class, and the
    mean of these. It is 0 where all images of a class are alike."""
    distances = []
    for k in np.unique(classes):
        own = features[classes == k]
        distances.append(np.linalg.norm(own - own.mean(axis=0), axis=1).mean())
    return float(np.mean(distances))
