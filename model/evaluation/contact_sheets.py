"""The report's pictures: small images in rows with a clear seam between them, as PNG bytes."""

from dataclasses import dataclass
from io import BytesIO

import numpy as np
from PIL import Image

from scanline.model.config import ModelConfig
from scanline.model.contact_sheet import sheet
from scanline.model.evaluation.samples import Evidence

SEAM, GAP = 1, 6  # transparent pixels around each image, and between what stands side by side
OCCLUDED = 128  # grey that stands for a byte to paint
SHOWN, COLUMNS = 80, 8  # samples, and as many test images
PAIRS = 10  # rows of neighbours


@dataclass(frozen=True)
class Picture:
    """A PNG and its size in pixels, which a page may enlarge."""

    png: bytes
    width: int
    height: int


def samples(found: Evidence, config: ModelConfig) -> Picture:
    """The first samples, unchosen."""
    return _picture(_grid(found.painted.images[:SHOWN], COLUMNS, config))


def tests(found: Evidence, config: ModelConfig) -> Picture:
    """As many test images."""
    return _picture(_grid(found.test[found.chosen[:SHOWN]], COLUMNS, config))


def unrecognised(found: Evidence, config: ModelConfig) -> Picture:
    """The samples that the classifier is least sure of."""
    least_sure = found.sample_looks.confidence.argsort(kind="stable")[: 2 * COLUMNS]
    return _picture(_grid(found.painted.images[least_sure], COLUMNS, config))


def closest(found: Evidence, config: ModelConfig) -> Picture:
    """The samples that come closest to a training image, each before its nearest ones."""
    return _neighbours(found, found.sample_neighbours.distances[:, 0].argsort(kind="stable")[:PAIRS], config)


def unchosen(found: Evidence, config: ModelConfig) -> Picture:
    """The first samples before their nearest training images."""
    return _neighbours(found, np.arange(PAIRS), config)


def completions(found: Evidence, config: ModelConfig) -> Picture:
    """Rows of occluded | completions | original."""
    held = found.completions
    occluded = _grid(np.where(held.known, held.originals, np.uint8(OCCLUDED)), 1, config)
    completed = _grid(held.completed.reshape(-1, config.bytes), held.completed.shape[1], config)
    return _picture(occluded, completed, _grid(held.originals, 1, config))


def _neighbours(found: Evidence, chosen: np.ndarray, config: ModelConfig) -> Picture:
    places = found.sample_neighbours.places[chosen]
    training = _grid(found.training[places.reshape(-1)], places.shape[1], config)
    return _picture(_grid(found.painted.images[chosen], 1, config), training)


def _grid(images: np.ndarray, columns: int, config: ModelConfig) -> np.ndarray:
    """Images [n, N] row by row, as RGBA [height, width, 4]."""
    shape = (len(images), config.height, config.width)
    pixels = np.broadcast_to(images.reshape(*shape, config.channels), (*shape, 3))
    opaque = np.full((*shape, 1), 255, np.uint8)
    edge = ((0, 0), (SEAM, SEAM), (SEAM, SEAM), (0, 0))
    return np.asarray(sheet(np.pad(np.concatenate((pixels, opaque), axis=-1), edge), columns))


def _picture(*grids: np.ndarray) -> Picture:
    """Grids of one height side by side."""
    between = np.zeros((len(grids[0]), GAP, 4), np.uint8)
    parts = [part for grid in grids for part in (between, grid)][1:]
    picture = Image.fromarray(np.concatenate(parts, axis=1))
    out = BytesIO()
    picture.save(out, "PNG")
    return Picture(out.getvalue(), *picture.size)
