"""The positions that an update computes: in drawings, all those where something is painted
nearby, and a random sample of the others.

Most of a drawing is background, whose bytes are known in advance and teach little, but cost as much
as any. A background position that is drawn stands for others: its loss counts by the inverse of its
rate (Horvitz and Thompson, 1952), and so does its key for later positions, so that the loss and the
sums of the attention's state stay right on average.

The sample must not reveal to a position what is not painted yet: training would learn to read it.
So the rate is the same in all images, and every position is drawn independently of the others. A
position's key has weight 1 for its own query, because its weight depends on its own byte.
"""

from dataclasses import dataclass

import numpy as np
import torch

from scanline.model.base.config import ModelConfig
from scanline.model.datasets.split import Images
from scanline.model.training.config import TrainingConfig
from scanline.model.training.data.batches import DRAWN

NEAR_ROWS = 2
NEAR_COLUMNS = 2
MEASURED_IMAGES = 1_000
# of the images have room for all that is drawn; of the others the last positions are left out
COVERED = 0.95
MULTIPLE = 32  # of the number of positions, for the attention's chunks
WORTHWHILE = 0.9  # of the positions: where more would be drawn, all are computed


@dataclass(frozen=True)
class Positions:
    """The positions of a batch that an update computes."""

    position: torch.Tensor  # [B, n] int64, ascending
    # [B, n] float32: for how many positions each stands; 0 for those that fill up an image
    weight: torch.Tensor

    def to(self, device: torch.device) -> "Positions":
        return Positions(self.position.to(device), self.weight.to(device))


class PositionSampler:
    """Draws the positions of the updates of a run: as many in every image, since a compiled loss
    has one shape."""

    def __init__(self, images: Images, config: TrainingConfig, model: ModelConfig) -> None:
        """images [n, N] uint8: those to train on, which decide the number of positions."""
        self.config = config
        self.model = model
        self.count = model.steps
        if config.background < 1 and model.step == "pixel" and not model.causal_conv:
            painted = near_paint(images[:MEASURED_IMAGES], model).sum(1)
            wanted = painted + config.background * (model.steps - painted)
            chunks = -(-int(np.quantile(wanted, COVERED)) // MULTIPLE)
            if chunks * MULTIPLE < WORTHWHILE * model.steps:
                self.count = chunks * MULTIPLE

    def at(self, batch: torch.Tensor, update: int) -> Positions | None:
        """Return the positions of an update's images [B, N] uint8: a function of them, the seed and
        the update. None where all are computed."""
        if self.count == self.model.steps:
            return None
        random = np.random.default_rng([self.config.seed, DRAWN, update])
        near = near_paint(batch.numpy(), self.model)
        position = np.empty((len(batch), self.count), np.int64)
        weight = np.empty((len(batch), self.count), np.float32)
        for image in range(len(batch)):
            position[image], weight[image] = draw(
                near[image], self.count, self.config.background, random
            )
        return Positions(torch.from_numpy(position), torch.from_numpy(weight))


def near_paint(images: np.ndarray, model: ModelConfig) -> np.ndarray:
    """Return [B, steps] bool: whether a pixel of images [B, N] uint8, or one painted close before
    it, is not background, which is the byte that the window reads outside the picture."""
    shape = (len(images), model.height, model.width, model.channels)
    paint = (images.reshape(shape) != model.outside).any(axis=3)
    height, width = paint.shape[1:]
    around = np.pad(paint, ((0, 0), (NEAR_ROWS, 0), (NEAR_COLUMNS, NEAR_COLUMNS)))
    near = paint.copy()
    for up in range(NEAR_ROWS + 1):
        for right in range(-NEAR_COLUMNS, NEAR_COLUMNS + 1):
            if up or right < 0:
                row = NEAR_ROWS - up
                column = NEAR_COLUMNS + right
                near |= around[:, row : row + height, column : column + width]
    return near.reshape(len(images), -1)


def draw(
    near: np.ndarray, count: int, background: float, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` positions of an image, ascending, and their weights, both [count]; the first
    of those that are drawn where they are more, and the last position with a weight of 0 where they
    are fewer.

    near [steps] bool: positions that are all drawn; each of the others is with probability
    `background`.
    """
    drawn = np.flatnonzero(near | (random.random(len(near)) < background))[:count]
    position = np.full(count, len(near) - 1)
    weight = np.zeros(count)
    position[: len(drawn)] = drawn
    weight[: len(drawn)] = np.where(near[drawn], 1.0, 1 / background)
    return position, weight
