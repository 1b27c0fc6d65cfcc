"""Images of nothing, which the classifier is taught to tell from all classes: without them it is sure of noise."""

import numpy as np

SIDES = (1, 2, 4)  # of a tile, in pixels; they divide the sides of every published set


def nonsense(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Of each image [n, H, W, C] uint8 its tiles in another order, or tiles of random colours, by chance."""
    return np.stack([_tiled(image, rng) for image in images])


def _tiled(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    height, width, channels = image.shape
    down, across = rng.choice(SIDES, 2)
    rows, columns = height // down, width // across
    tiles = image.reshape(rows, down, columns, across, channels).swapaxes(1, 2).reshape(-1, down, across, channels)
    if rng.random() < 0.5:
        tiles = tiles[rng.permutation(len(tiles))]
    else:
        tiles = np.broadcast_to(rng.integers(0, 256, (len(tiles), 1, 1, channels), np.uint8), tiles.shape)
    mixed: np.ndarray = tiles.reshape(rows, columns, down, across, channels).swapaxes(1, 2).reshape(image.shape)
    return mixed
