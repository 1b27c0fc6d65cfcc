"""The report's three plots as PNG bytes, each for a light and for a dark page."""

from io import BytesIO
from typing import Any

import numpy as np

from scanline.model.datasets import CLASSES
from scanline.model.evaluation.samples import Evidence

INK = {"light": "#1c1e21", "dark": "#e4e6e8"}
SAMPLES, TESTS = "#e8743b", "#4a86c8"


def bits(found: Evidence, theme: str) -> bytes:
    """Histogram of bits/dim: samples against test images."""
    return _histogram(theme, found.painted.bits_per_dim, found.test_bits, "bits/dim under the model")


def distances(found: Evidence, theme: str) -> bytes:
    """Histogram of distances to the nearest training image."""
    samples, tests = found.sample_neighbours.distances[:, 0], found.test_neighbours.distances[:, 0]
    return _histogram(theme, samples, tests, "distance to the nearest training image, grey levels (RMS)")


def classes(found: Evidence, theme: str) -> bytes:
    """What the classifier takes samples and test images for."""
    figure, axes = _axes(theme)
    places = np.arange(len(CLASSES[found.dataset]))
    for shift, looks, colour, label in (
        (-0.2, found.sample_looks, SAMPLES, "samples"),
        (0.2, found.test_looks, TESTS, "test images"),
    ):
        axes.bar(places + shift, 100 * np.array(looks.class_shares), 0.4, color=colour, label=label)
    axes.set_xticks(places, CLASSES[found.dataset], rotation=0 if found.dataset == "mnist" else 35)
    axes.set(ylabel="% of images", xlabel="class that the classifier sees")
    return _png(figure, axes, theme)


def _histogram(theme: str, samples: np.ndarray, tests: np.ndarray, what: str) -> bytes:
    figure, axes = _axes(theme)
    both = np.concatenate((samples, tests))
    both = both[np.isfinite(both)]
    edges = np.linspace(both.min(), max(np.quantile(both, 0.999), both.min() + 1e-6), 60)
    for values, colour, label in ((samples, SAMPLES, "samples"), (tests, TESTS, "test images")):
        counted = np.minimum(values, edges[-1])  # what lies beyond is in the last bin
        weights = np.full(len(values), 100 / len(values))
        axes.hist(counted, edges, weights=weights, color=colour, alpha=0.35)
        axes.hist(counted, edges, weights=weights, color=colour, histtype="step", lw=1.5, label=label)
    axes.set(xlabel=what, ylabel="% of images")
    return _png(figure, axes, theme)


def _axes(theme: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # the `train` extra

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    ink = INK[theme]
    axes.tick_params(colors=ink)
    for line in axes.spines.values():
        line.set_color(ink)
    axes.xaxis.label.set_color(ink)
    axes.yaxis.label.set_color(ink)
    return figure, axes


def _png(figure: Any, axes: Any, theme: str) -> bytes:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2, axis="y")
    axes.set_axisbelow(True)
    axes.legend(frameon=False, labelcolor=INK[theme], loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    out = BytesIO()
    figure.savefig(out, format="png", dpi=140, transparent=True)
    return out.getvalue()
