"""The report's pictures: small images in rows with a clear seam between them, as PNG bytes."""

from dataclasses import dataclass
from io import BytesIO

import numpy as np

from model.config import ModelConfig
from model.contact_sheet import sheet
from model.quality.evidence import Evidence

SEAM = 1  # transparent pixels around each image
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
    return _picture(found.painted.images[:SHOWN], COLUMNS, config)


def tests(found: Evidence, config: ModelConfig) -> Picture:
    """As many test images."""
    return _picture(found.test[found.chosen[:SHOWN]], COLUMNS, config)


def closest(found: Evidence, config: ModelConfig) -> Picture:
    """Samples that come closest to a training image, each before its nearest ones."""
    return _neighbours(found, found.sample_neighbours.distances[:, 0].argsort(kind="stable")[:PAIRS], config)


def unchosen(found: Evidence, config: ModelConfig) -> Picture:
    """The first samples before their nearest training images."""
    return _neighbours(found, np.arange(PAIRS), config)


def completions(found: Evidence, config: ModelConfig) -> Picture:
    """Rows of occluded | completions | original."""
    held = found.completions
    occluded = np.where(held.known, held.originals, np.uint8(OCCLUDED))
    rows = np.concatenate((occluded[:, None], held.completed, held.originals[:, None]), axis=1)
    return _picture(rows.reshape(-1, config.bytes), rows.shape[1], config)


def unrecognised(found: Evidence, config: ModelConfig) -> Picture:
    """The samples that the classifier is least sure of."""
    return _picture(
        found.painted.images[found.sample_looks.confidence.argsort(kind="stable")[: 2 * COLUMNS]], COLUMNS, config
    )


def _neighbours(found: Evidence, chosen: np.ndarray, config: ModelConfig) -> Picture:
    training = found.training[found.sample_neighbours.places[chosen]]
    rows = np.concatenate((found.painted.images[chosen][:, None], training), axis=1)
    return _picture(rows.reshape(-1, config.bytes), rows.shape[1], config)


def _picture(images: np.ndarray, columns: int, config: ModelConfig) -> Picture:
    """Images [n, N] row by row."""
    shape = (config.height, config.width, config.channels)
    pixels = np.broadcast_to(images.reshape(-1, *shape), (len(images), config.height, config.width, 3))
    opaque = np.full((*pixels.shape[:3], 1), 255, np.uint8)
    edge = ((0, 0), (SEAM, SEAM), (SEAM, SEAM), (0, 0))
    picture = sheet(np.pad(np.concatenate((pixels, opaque), axis=-1), edge), columns)
    out = BytesIO()
    picture.save(out, "PNG")
    return Picture(out.getvalue(), *picture.size)
