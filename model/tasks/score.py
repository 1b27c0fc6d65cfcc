"""Likelihoods: the bits of every byte of given images."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scanline.model.base.class_names import ClassNames, label_of_class
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.cleaning import Cleaned
from scanline.model.sampling.base.messages import Event, Scored, ScoreRequest
from scanline.model.tasks.task import ReadTask


@dataclass(frozen=True)
class ScoreValues:
    """What a user says of images to score, besides the images."""

    pictures: int
    class_name: ClassNames | None = None


@dataclass(frozen=True)
class Scores:
    """The likelihoods of n images."""

    bits: tuple[np.ndarray, ...]  # of each image its bytes' bits, [N] float64
    noisy: np.ndarray  # [n] bool, whether each image had noise of codecs or scanners
    # [n] float64: see `Typicality`; None where it was not measured
    tail_probabilities: np.ndarray | None


class ScoreTask(ReadTask):
    """Images that are read as they are."""

    def __init__(self, model: ModelInfo, pictures: int, label: int) -> None:
        self.model = model
        self.label = label
        self.count = pictures
        self.bits: dict[int, np.ndarray] = {}  # by image: memory is taken as they come

    def fill(self, images: Sequence[Cleaned]) -> None:
        """See ReadTask.fill."""
        self.images = np.concatenate([part.images for part in images])
        self.noisy = np.concatenate([part.noisy for part in images])
        rows = tuple(image.tobytes() for image in self.images)
        self.request = ScoreRequest(0, rows, (self.label,) * len(rows))

    def receive(self, event: Event) -> None:
        """See Task.receive."""
        if isinstance(event, Scored):
            self.bits[event.index] = np.frombuffer(event.bits)

    @property
    def held_bytes(self) -> int:
        """The bytes of the bits that are here, float64."""
        return len(self.bits) * self.model.config.bytes * 8

    def result(self) -> Scores:
        """Return the bits of all images."""
        bits = tuple(self.bits[index] for index in range(self.count))
        tails = None
        if self.model.typicality is not None:
            totals = np.array([of_image.sum() for of_image in bits])
            tails = self.model.typicality.tail_probabilities(totals, self.images, self.noisy)
        return Scores(bits, self.noisy, tails)


def plan(model: ModelInfo, values: ScoreValues) -> ScoreTask:
    """Return the task that scores images of a class; InvalidInput where that is not known."""
    label = label_of_class(model.config, values.class_name)
    return ScoreTask(model, values.pictures, label)
