"""The numbers of a report, as evaluation.json and programs read them: samples beside test images, key by key."""

from math import sqrt
from typing import Any

import numpy as np

from scanline.model.datasets import CLASSES
from scanline.model.evaluation.classifier import FEATURES, RECOGNISABLE
from scanline.model.evaluation.frechet import frechet_distance
from scanline.model.evaluation.samples import CLOSE, Evidence
from scanline.model.evaluation.train_classifier import RECIPE


def figures(found: Evidence) -> dict[str, Any]:
    """A JSON object; shares are of 1, distances between images in grey levels of a byte (0 to 255)."""
    samples = len(found.painted.images)
    return {
        "samples": samples,
        "seed": found.seed,
        "sample_bits_per_dim": _mean(found.painted.bits_per_dim),
        "frechet_distance": _frechet(found),
        "recognisable": _recognisable(found),
        "classes": {
            "names": list(CLASSES[found.dataset]),
            "samples": found.sample_looks.class_shares,
            "test_images": found.test_looks.class_shares,
        },
        "nearest_training_image": _nearest(found),
        "classifier": {
            "recipe": RECIPE,
            "features": FEATURES,
            "test_accuracy": float((found.test_looks.classes == found.test_labels).mean()),
        },
    }


def _mean(values: np.ndarray) -> dict[str, float]:
    return {"mean": float(values.mean()), "standard_error": float(values.std(ddof=1)) / sqrt(len(values))}


def _frechet(found: Evidence) -> dict[str, Any]:
    """As many samples as chosen test images, each against the other half of the test images."""
    count = len(found.chosen)
    others = found.test_looks.features[found.others]
    return {
        "features": "of this report's classifier, not of an Inception network",
        "images": count,
        "against": len(others),
        "samples": frechet_distance(found.sample_looks.features[:count], others),
        "test_images": frechet_distance(found.test_looks.features[found.chosen], others),
    }


def _recognisable(found: Evidence) -> dict[str, float]:
    sure = found.test_looks.recognised
    right = found.test_looks.classes == found.test_labels
    return {
        "confidence": RECOGNISABLE,
        "samples": float(found.sample_looks.recognised.mean()),
        "test_images": float(sure.mean()),
        "test_images_right": float(right[sure].mean()) if sure.any() else 0.0,
    }


def _nearest(found: Evidence) -> dict[str, Any]:
    """Samples that were learnt by heart lie closer to the training images than test images do."""
    samples, tests = found.sample_neighbours.distances[:, 0], found.test_neighbours.distances[:, 0]
    return {
        "training_images": len(found.training),
        "samples_median": float(np.median(samples)),
        "test_images_median": float(np.median(tests)),
        "samples_least": float(samples.min()),
        "test_images_least": float(tests.min()),
        "copies": int((samples == 0).sum()),
        "close_is_below": float(np.quantile(tests, CLOSE)),
        "samples_close": float((samples < np.quantile(tests, CLOSE)).mean()),
        "test_images_close": CLOSE,
    }
