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
from math import ceil

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
            drawn = painted + config.background * (model.steps - painted)
            enough = int(np.quantile(drawn, COVERED))
            count = ceil(enough / MULTIPLE) * MULTIPLE
            if count < WORTHWHILE * model.steps:
                self.count = count

    def at(self, batch: torch.Tensor, update: int) -> Positions | None:
        """Return the positions of an update's images [B, N] uint8: a function of them, the seed and
        the update. None where all are computed."""
        if self.count == self.model.steps:
            return None
        config = self.config
        random = np.random.default_rng([config.seed, DRAWN, update])
        positions = []
        weights = []
        for near in near_paint(batch.numpy(), self.model):
            position, weight = draw(near, self.count, config.background, random)
            positions.append(position)
            weights.append(weight)
        return Positions(
            position=torch.tensor(np.stack(positions)),
            weight=torch.tensor(np.stack(weights), dtype=torch.float32),
        )


def near_paint(images: np.ndarray, model: ModelConfig) -> np.ndarray:
    """Return [B, steps] bool: whether a pixel of images [B, N] uint8, or one painted close before
    it, is not background, which is the byte that the window reads outside the picture."""
    height = model.height
    width = model.width
    pixels = images.reshape(len(images), height, width, model.channels)
    paint = (pixels != model.outside).any(axis=3)
    borders = ((0, 0), (NEAR_ROWS, 0), (NEAR_COLUMNS, NEAR_COLUMNS))
    around = np.pad(paint, borders)
    near = paint.copy()
    for up in range(NEAR_ROWS + 1):
        for right in range(-NEAR_COLUMNS, NEAR_COLUMNS + 1):
            is_before = up > 0 or right < 0
            if is_before:
                row = NEAR_ROWS - up
                column = NEAR_COLUMNS + right
                near |= around[:, row : row + height, column : column + width]
    return near.reshape(len(images), -1)


def draw(
    near: np.ndarray,  # [steps] bool: positions that are all drawn
    count: int,
    background: float,  # the probability of each of the others
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` positions of an image, ascending, and their weights, both [count]; the first
    of those that are drawn where they are more, and the last position with a weight of 0 where they
    are fewer.
    """
    is_drawn = random.random(len(near)) < background
    drawn = np.flatnonzero(near | is_drawn)[:count]
    position = np.full(count, len(near) - 1)
    weight = np.zeros(count)
    position[: len(drawn)] = drawn
    weight[: len(drawn)] = np.where(near[drawn], 1.0, 1 / background)
    return position, weight
