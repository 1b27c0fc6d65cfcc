"""The numbers of a comparison, as evaluation.json holds them under "quality": of samples and of
test images."""

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np
import torch

from scanline.model.base.config import ModelConfig
from scanline.model.evaluation.classifier import FEATURES, RECIPE, RECOGNISABLE
from scanline.model.evaluation.comparison import Comparison
from scanline.model.images.cleaning import Cleaning
from scanline.model.likelihood.typicality import Typicality

# a sample is close to the training set where no more than this share of test images is closer
CLOSE = 0.01
BOOTSTRAPS = 50
NEIGHBOURS = 3
OF_EACH = " samples of each class"


def quality(compared: Comparison) -> dict[str, Any]:
    """Return a JSON object; shares are of 1, distances between images in grey levels of a byte (0
    to 255)."""
    bits = compared.painted.bits_per_dim
    accuracy = (compared.test_predictions.classes == compared.data.test_labels).mean()
    return {
        "samples": len(bits),
        "seed": compared.seed,
        "sample_bits_per_dim": {"mean": float(bits.mean()), "standard_error": standard_error(bits)},
        "frechet_distance": _frechet(compared),
        "recognisable": _recognisable(compared),
        "default": _default(compared),
        "classes": {
            "names": list(compared.data.names),
            "samples": compared.sample_predictions.class_shares(len(compared.data.names)),
            "test_images": compared.test_predictions.class_shares(len(compared.data.names)),
        },
        "nearest_training_image": nearest_figures(
            compared.sample_neighbours.distances[:, 0],
            compared.test_neighbours.distances[:, 0],
            len(compared.data.training),
        ),
        "classifier": {"recipe": RECIPE, "features": FEATURES, "test_accuracy": float(accuracy)},
    }


def seed_figures(qualities: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return mean and standard deviation over samples of several seeds."""
    values = {
        "frechet_distance": [figures["frechet_distance"]["samples"] for figures in qualities],
        "recognisable": [figures["recognisable"]["samples"] for figures in qualities],
        "bits_per_dim": [figures["sample_bits_per_dim"]["mean"] for figures in qualities],
    }
    spread = {
        name: {
            "mean": float(np.mean(numbers)),
            "standard_deviation": float(np.std(numbers, ddof=1)),
        }
        for name, numbers in values.items()
    }
    return {"seeds": [figures["seed"] for figures in qualities], **spread}


def bits_figures(bits: np.ndarray) -> dict[str, Any]:
    """Return mean, standard error and number of bits per dimension [n], as evaluation.json holds
    them."""
    return {
        "bits_per_dim": float(bits.mean()),
        "standard_error": standard_error(bits),
        "images": len(bits),
    }


def test_figures(bits: np.ndarray, images: np.ndarray, config: ModelConfig) -> dict[str, Any]:
    """Return those of the bits per dimension [n] of test images [n, N] uint8, with their quantiles
    and what noise may be removed from pictures for the model."""
    cleaning = Cleaning.measure(images, config)
    noisy = np.zeros(len(images), bool) if cleaning is None else cleaning.noise(images, config) > 0
    return {
        **bits_figures(bits),
        "typical": Typicality.measure(bits * images.shape[1], images, noisy).to_dict(),
        "clean": None if cleaning is None else cleaning.to_dict(),
    }


def standard_error(values: np.ndarray) -> float | None:
    """Return the standard error of the mean of values [n]; None of a single one."""
    return float(values.std(ddof=1)) / sqrt(len(values)) if len(values) > 1 else None


def frechet_distance(first: np.ndarray, second: np.ndarray) -> float:
    """Return |mu_1 - mu_2|^2 + tr(C_1 + C_2 - 2 (C_1 C_2)^(1/2)) of features [n, F] and [m, F]; n,
    m may be below F.

    It is the distance between two clouds of features, each taken for a Gaussian (Dowson and
    Landau, 1982; with the features of an Inception network it is the FID of Heusel et al.,
    2017). It is biased upward for finite samples: compare values of equal n and m.
    ValueError for fewer than two rows.
    """
    fewest = min(len(first), len(second))
    if fewest < 2:
        raise ValueError(f"a covariance needs at least 2 images, not {fewest}")
    mean_1, covariance_1 = _gaussian(first)
    mean_2, covariance_2 = _gaussian(second)
    values, vectors = torch.linalg.eigh(covariance_1)
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T  # eigenvalues below 0 are rounding
    shared = torch.linalg.eigvalsh(root @ covariance_2 @ root).clamp(min=0).sqrt().sum()
    between = (mean_1 - mean_2).square().sum()
    distance = between + covariance_1.trace() + covariance_2.trace() - 2 * shared
    return max(0.0, float(distance))


def bootstrap_error(
    measure: Callable[[np.ndarray, np.ndarray], float], first: np.ndarray, second: np.ndarray
) -> float:
    """Return the standard error of a measure of two sets of images by the bootstrap (Efron, 1979):
    the spread of its values for as many images that are drawn from these."""
    rng = np.random.default_rng(0)
    values = []
    for _ in range(BOOTSTRAPS):
        drawn = [
            values_of[rng.integers(len(values_of), size=len(values_of))]
            for values_of in (first, second)
        ]
        values.append(measure(*drawn))
    return float(np.std(values, ddof=1))


def precision_recall(samples: np.ndarray, tests: np.ndarray) -> dict[str, float]:
    """Return the share of samples [n, F] that lie among test images [m, F], and of test images that
    lie among samples: no farther from one of them than its NEIGHBOURS-th nearest of its own kind is
    (Kynkäänniemi et al., 2019). Compare values of equal n and m."""
    of_samples = torch.from_numpy(np.ascontiguousarray(samples))
    of_tests = torch.from_numpy(np.ascontiguousarray(tests))
    distances = torch.cdist(of_samples, of_tests)
    reach_of_samples = _reach(of_samples)
    reach_of_tests = _reach(of_tests)
    precision = (distances <= reach_of_tests).any(dim=1)
    recall = (distances <= reach_of_samples[:, None]).any(dim=0)
    return {"precision": float(precision.double().mean()), "recall": float(recall.double().mean())}


def _reach(features: torch.Tensor) -> torch.Tensor:
    """Return the distance [n] of each image to its NEIGHBOURS-th nearest."""
    # the nearest of all is the image itself
    rank = min(NEIGHBOURS + 1, len(features))
    return torch.cdist(features, features).kthvalue(rank, dim=1).values


def _gaussian(features: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean [F] and the covariance [F, F], float64."""
    values = torch.from_numpy(np.ascontiguousarray(features, np.float64))
    return values.mean(dim=0), torch.cov(values.T).reshape(values.shape[1], -1)


def tested_rows(evaluation: dict[str, Any]) -> dict[str, str]:
    """Return those rows, by their names, that state the range of the test images' bits and how well
    classes are known, of a published set or of one's own pictures."""
    rows = {}
    classes = evaluation.get("classes", {})
    typical = evaluation.get("typical")
    if typical:
        low, high = Typicality.from_dict(typical).range
        rows["99 % of the test images"] = f"{low:.2f} to {high:.2f} bits/dim"
    for key, words in (
        ("true_class", "with the true class"),
        ("any_class", "where the class is drawn"),
    ):
        bits = classes.get(key)
        if bits:
            spread = f"{bits['bits_per_dim']:.3f} +- {bits['standard_error'] or 0:.4f}"
            rows[f"test bits/dim {words}"] = f"{spread} on {bits['images']:,} test images"
    for key, way in (
        ("by_head", "the class head"),
        ("classification", "the bits under every class"),
    ):
        figures = classes.get(key)
        if figures:
            share = f"{figures['accuracy']:.1%} +- {figures['standard_error']:.1%}"
            images = f"{figures['images']:,} test images"
            words = f"{share} of {images}{sure_share(figures)}"
            if "reliability" in figures:
                words += f"; calibration error {figures['reliability']['calibration_error']:.3f}"
            rows[f"classification by {way}"] = words
    guidance = evaluation.get("guidance", {"rows": ()})
    samples = classes.get("samples")
    if samples and not guidance["rows"]:
        of_each = samples["as_asked_of_each"]
        rows[f"{samples['each']:,}{OF_EACH}"] = (
            f"{samples['as_asked']:.1%} have the class asked for to a small classifier, from"
            f" {min(of_each):.1%} to {max(of_each):.1%} of a class"
        )
    for row in guidance["rows"]:
        way = f"{way_words(row)}, temperature {row['temperature']:g}"
        if row["default"]:
            way += " (the default)"
        tests = guidance["test_images"]
        rows[f"{guidance['each']:,}{OF_EACH}, {way}"] = (
            f"a small classifier takes {row['as_asked']:.1%} +- {row['standard_error']:.1%} for the class asked for"
            f" (of test images {tests['as_asked']:.1%}); recognisable {row['recognisable']:.1%}"
            f" ({tests['recognisable']:.1%}); Frechet distance {row['frechet_distance']:.3f} +-"
            f" {row['frechet_error']:.3f} ({tests['frechet_distance']:.3f}); precision {row['precision']:.1%}"
            f" ({tests['precision']:.1%}), recall {row['recall']:.1%} ({tests['recall']:.1%}); distance"
            f" within classes {row['within_class_distance']:.3f} ({tests['within_class_distance']:.3f})"
        )
    seeds = evaluation.get("seeds")
    if seeds:
        spreads = [
            f"{name.replace('_', ' ')} {seeds[name]['mean']:.4g} +- {seeds[name]['standard_deviation']:.2g}"
            for name in seeds
            if name != "seeds"
        ]
        rows[f"samples of {len(seeds['seeds'])} seeds"] = (
            f"{', '.join(spreads)} (standard deviations)"
        )
    for row in evaluation.get("unlike", ()):
        rows[f"{row['images']:,} pictures of {row['name']}"] = (
            f"{row['bits_per_dim']:.3f} bits/dim; AUROC against test images {row['auroc_of_bits']:.4f} +-"
            f" {row['error_of_bits']:.4f} by bits, {row['auroc_of_tails']:.4f} +- {row['error_of_tails']:.4f}"
            f" by tail probabilities; {row['typical']:.1%} typical (test images {row['typical_test_images']:.1%})"
        )
    completions = evaluation.get("completions", {"rows": ()})
    for row in completions["rows"]:
        name = f"{completions['images']:,} test images without {row['hidden']}, {row['particles']} particles"
        rows[name] = f"{row['bits_per_known_dim']:.4f} bits/dim of the known pixels"
        if "as_original" in row:
            share = f"{row['as_original']:.1%} +- {row['error_as_original'] or 0:.1%}"
            rows[name] += f", {share} completed to the original's class"
    return rows


def way_words(row: Mapping[str, Any]) -> str:
    """Return how the samples of a row are painted, but for their temperature."""
    count = row.get("best_of", 1)
    best = f", best of {count}" if count > 1 else ""
    return f"guidance {row['guidance']:g}{best}"


def sure_share(figures: dict[str, Any]) -> str:
    """Return the words for the answers of figures that are sure, after a semicolon; none where
    there are none."""
    sure = figures.get("sure", {"images": 0})
    if not sure["images"]:
        return ""
    at = f" at temperature {figures['temperature']:g}" if "temperature" in figures else ""
    return f"; of {sure['images']:,} answers above {sure['above']:g}{at}, {sure['right']:.2%} are right"


def _frechet(compared: Comparison) -> dict[str, Any]:
    """Compare as many samples as chosen test images, each with the other half of the test
    images."""
    count = len(compared.chosen)
    others = compared.test_predictions.features[compared.others]
    samples = compared.sample_predictions.features[:count]
    tests = compared.test_predictions.features[compared.chosen]
    return {
        "features": "of this report's classifier, not of an Inception network",
        "images": count,
        "against": len(others),
        "samples": frechet_distance(samples, others),
        "standard_error": bootstrap_error(frechet_distance, samples, others),
        "test_images": frechet_distance(tests, others),
        "of_samples": precision_recall(samples, others),
        "of_test_images": precision_recall(tests, others),
    }


def _recognisable(compared: Comparison) -> dict[str, float]:
    recognised = compared.test_predictions.recognised
    right = compared.test_predictions.classes == compared.data.test_labels
    return {
        "confidence": RECOGNISABLE,
        "samples": float(compared.sample_predictions.recognised.mean()),
        "test_images": float(recognised.mean()),
        "test_images_right": float(right[recognised].mean()) if recognised.any() else 0.0,
    }


def _default(compared: Comparison) -> dict[str, Any] | None:
    """Return how the images are painted that the model's defaults say, and their figures, as those
    of samples."""
    if compared.by_default is None:
        return None
    how, seen = compared.by_default
    others = compared.test_predictions.features[compared.others]
    return {
        "class": how.class_name or "none",
        "guidance": how.guidance,
        "temperature": how.temperature,
        "best_of": how.best_of,
        "frechet_distance": frechet_distance(seen.features[: len(compared.chosen)], others),
        "recognisable": float(seen.recognised.mean()),
    }


def nearest_figures(samples: np.ndarray, tests: np.ndarray, training_images: int) -> dict[str, Any]:
    """Compare distances [n] and [m] to the nearest training image: memorised samples lie closer
    than test images do."""
    close = float(np.quantile(tests, CLOSE))
    return {
        "training_images": training_images,
        "samples_median": float(np.median(samples)),
        "test_images_median": float(np.median(tests)),
        "samples_least": float(samples.min()),
        "test_images_least": float(tests.min()),
        "copies": int((samples == 0).sum()),
        "close_is_below": close,
        "samples_close": float((samples < close).mean()),
        "test_images_close": CLOSE,
    }
