"""The report's figures: sheets of small images as PIL images, and three plots as PNG bytes.

Sheets have transparent seams and plots a grey ink, so that both are readable on a light and on a dark page.
"""

from base64 import b64encode
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

from scanline.model.config import ModelConfig
from scanline.model.datasets import CLASSES
from scanline.model.evaluation.comparison import Comparison
from scanline.model.images.contact_sheet import UNPAINTED, sheet

SEAM, GAP = 1, 6  # transparent pixels around each image, and between what stands side by side
SCALE = 2  # screen pixels for a pixel of a sheet
SHOWN, COLUMNS = 80, 8  # samples, and as many test images
PAIRS = 10  # rows of neighbours
INK = "#74797f"
SAMPLES, TESTS = "#e8743b", "#4a86c8"


def sheets(compared: Comparison, config: ModelConfig) -> dict[str, Image.Image]:
    """Return the report's sheets by their names in the template."""
    samples = compared.painted.images
    unsure = compared.sample_predictions.confidence.argsort(kind="stable")[: 2 * COLUMNS]
    closest = compared.sample_neighbours.distances[:, 0].argsort(kind="stable")[:PAIRS]
    occluded = np.where(compared.known, compared.originals, np.uint8(UNPAINTED))
    return {
        "samples": _picture(_grid(samples[:SHOWN], COLUMNS, config)),
        "tests": _picture(_grid(compared.data.test[compared.chosen[:SHOWN]], COLUMNS, config)),
        "unrecognised": _picture(_grid(samples[unsure], COLUMNS, config)),
        "closest": _neighbours(compared, closest, config),
        "unchosen": _neighbours(compared, np.arange(PAIRS), config),
        "completions": _picture(
            _grid(occluded, 1, config),
            _grid(compared.completed.reshape(-1, config.bytes), compared.completed.shape[1], config),
            _grid(compared.originals, 1, config),
        ),
    }


def _neighbours(compared: Comparison, rows: np.ndarray, config: ModelConfig) -> Image.Image:
    """Show samples, each before its nearest training images."""
    indices = compared.sample_neighbours.indices[rows]
    training = _grid(compared.data.training[indices.reshape(-1)], indices.shape[1], config)
    return _picture(_grid(compared.painted.images[rows], 1, config), training)


def _grid(images: np.ndarray, columns: int, config: ModelConfig) -> np.ndarray:
    """Return images [n, N] row by row, as RGBA [height, width, 4]."""
    shape = (len(images), config.height, config.width)
    pixels = np.broadcast_to(images.reshape(*shape, config.channels), (*shape, 3))
    opaque = np.full((*shape, 1), 255, np.uint8)
    edge = ((0, 0), (SEAM, SEAM), (SEAM, SEAM), (0, 0))
    return np.asarray(sheet(np.pad(np.concatenate((pixels, opaque), axis=-1), edge), columns))


def _picture(*grids: np.ndarray) -> Image.Image:
    """Join grids of one height side by side."""
    between = np.zeros((len(grids[0]), GAP, 4), np.uint8)
    return Image.fromarray(np.concatenate([part for grid in grids for part in (between, grid)][1:], axis=1))


def picture(sheet: Image.Image) -> str:
    """Return a sheet as the attributes of an HTML image."""
    out = BytesIO()
    sheet.save(out, "PNG")
    return f'src="{data_url(out.getvalue())}" width="{SCALE * sheet.width}" height="{SCALE * sheet.height}"'


def data_url(png: bytes) -> str:
    """Return a PNG file as a URL that holds it."""
    return "data:image/png;base64," + b64encode(png).decode()


def grid_picture(images: np.ndarray, columns: int, config: ModelConfig) -> Image.Image:
    """Return images [n, N] uint8 as a sheet, row by row."""
    return _picture(_grid(images, columns, config))


def plots(compared: Comparison) -> dict[str, bytes]:
    """Return the report's plots, as PNG files, by their names in the template."""
    distances = compared.sample_neighbours.distances[:, 0], compared.test_neighbours.distances[:, 0]
    return {
        "bits": _histogram(compared.painted.bits_per_dim, compared.test_bits, "bits/dim under the model"),
        "classes": _class_shares(compared),
        "distances": _histogram(*distances, "distance to the nearest training image, grey levels (RMS)"),
    }


def _histogram(samples: np.ndarray, tests: np.ndarray, label: str) -> bytes:
    figure, axes = _axes()
    both = np.concatenate((samples, tests))
    both = both[np.isfinite(both)]
    edges = np.linspace(both.min(), max(np.quantile(both, 0.999), both.min() + 1e-6), 60)
    for values, colour, name in ((samples, SAMPLES, "samples"), (tests, TESTS, "test images")):
        clipped = np.minimum(values, edges[-1])  # the last bin holds everything beyond it
        weights = np.full(len(values), 100 / len(values))
        axes.hist(clipped, edges, weights=weights, color=colour, alpha=0.35)
        axes.hist(clipped, edges, weights=weights, color=colour, histtype="step", lw=1.5, label=name)
    axes.set(xlabel=label, ylabel="% of images")
    return _png(figure, axes)


def _class_shares(compared: Comparison) -> bytes:
    figure, axes = _axes()
    names = CLASSES[compared.data.dataset]
    centres = np.arange(len(names))
    samples, tests = compared.sample_predictions.class_shares, compared.test_predictions.class_shares
    axes.bar(centres - 0.2, 100 * np.array(samples), 0.4, color=SAMPLES, label="samples")
    axes.bar(centres + 0.2, 100 * np.array(tests), 0.4, color=TESTS, label="test images")
    axes.set_xticks(centres, names, rotation=0 if compared.data.dataset == "mnist" else 35)
    axes.set(ylabel="% of images", xlabel="class that the classifier sees")
    return _png(figure, axes)


def _axes() -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # the `train` extra

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.tick_params(colors=INK)
    for line in axes.spines.values():
        line.set_color(INK)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2, axis="y")
    axes.set_axisbelow(True)
    return figure, axes


def _png(figure: Any, axes: Any) -> bytes:
    axes.legend(frameon=False, labelcolor=INK, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    out = BytesIO()
    figure.savefig(out, format="png", dpi=140, transparent=True)
    return out.getvalue()
