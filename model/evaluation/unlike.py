"""How well a model tells its test images from other pictures, by their bits and by their tail
probabilities: the area under the receiver operating characteristic (AUROC)."""

from pathlib import Path
from typing import Any, Unpack

import numpy as np

from scanline.model.base.config import ModelConfig
from scanline.model.datasets.source import open_for
from scanline.model.evaluation.comparison import Stage
from scanline.model.evaluation.likelihood import bits_per_dim
from scanline.model.evaluation.metrics import bits_figures, bootstrap_error
from scanline.model.images.cleaning import Cleaning
from scanline.model.likelihood.typicality import TYPICAL, Typicality
from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import RunOptions


def other_pictures(path: Path, config: ModelConfig, most: int) -> np.ndarray:
    """Return up to `most` pictures of a data set [n, N] uint8, its test images first."""
    pictures = open_for(config, path, with_classes=False)
    return np.concatenate((pictures.test[:most], pictures.train[:most]))[:most]


def unlike_figures(
    model: Transformer,
    others: dict[str, np.ndarray],
    test: np.ndarray,
    test_bits: np.ndarray,
    measured: dict[str, Any],
    stage: Stage,
    **options: Unpack[RunOptions],
) -> list[dict[str, Any]]:
    """Return a row for each set of other pictures [n, N] uint8, by its name. test_bits: [m], per
    dimension, of the test images. measured: what evaluation.json holds of these."""
    typicality = Typicality.from_dict(measured["typical"])
    cleaning = measured["clean"] and Cleaning.from_dict(measured["clean"])

    def tails(images: np.ndarray, bits: np.ndarray) -> np.ndarray:
        noisy = np.zeros(len(images), np.bool_)
        if cleaning:
            noisy = cleaning.noise(images, model.config) > 0
        return typicality.tail_probabilities(bits * images.shape[1], images, noisy)

    test_tails = tails(test, test_bits)
    rows = []
    for name, images in others.items():
        progress = stage(f"scoring {name}", len(images), "images")
        bits = bits_per_dim(model, images, progress=progress, **options)
        tails_of_others = tails(images, bits)
        rows.append(
            {
                "name": name,
                **bits_figures(bits),
                "auroc_of_bits": auroc(test_bits, bits),
                "error_of_bits": bootstrap_error(auroc, test_bits, bits),
                "auroc_of_tails": auroc(-test_tails, -tails_of_others),
                "error_of_tails": bootstrap_error(auroc, -test_tails, -tails_of_others),
                "typical": float((tails_of_others >= TYPICAL).mean()),
                "typical_test_images": float((test_tails >= TYPICAL).mean()),
            }
        )
    return rows


def auroc(tests: np.ndarray, others: np.ndarray) -> float:
    """Return how probably the value of another picture, of [n], is above that of a test image, of
    [m]; half where both are equal."""
    ordered = np.sort(tests)
    below = np.searchsorted(ordered, others, "left")
    not_above = np.searchsorted(ordered, others, "right")
    return float((below + not_above).mean() / (2 * len(tests)))
