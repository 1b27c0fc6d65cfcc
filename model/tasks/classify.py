"""Classification: every image read under every class of the model, and mirrored where it was trained on that too."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.cleaning import Cleaned
from scanline.model.likelihood.classification import (
    Classification,
    check_classes,
    mixture_bits,
    of_readings,
    readings,
    views,
)
from scanline.model.sampling.messages import Event, Scored, ScoreRequest
from scanline.model.tasks.task import ReadTask


@dataclass(frozen=True)
class ClassifyValues:
    """What a user says of images to classify, besides the images."""

    pictures: int


class ClassifyTask(ReadTask):
    """Readings of images: of each image, of each view, of each class."""

    request: ScoreRequest

    def __init__(self, model: ModelInfo, pictures: int) -> None:
        self.model, self.count = model, pictures * readings(model.config)
        self.totals = np.full(self.count, np.nan)  # bits of each reading
        self.request = ScoreRequest(0, ())

    def fill(self, images: Sequence[Cleaned]) -> None:
        """See ReadTask.fill."""
        config = self.model.config
        self.images = np.concatenate([part.images for part in images])
        self.noisy = np.concatenate([part.noisy for part in images])
        tolerances = np.concatenate([part.tolerances for part in images]).repeat(readings(config))
        labels = range(1, len(config.classes) + 1)
        seen = [view.tobytes() for each in views(config, self.images) for view in each]
        self.request = ScoreRequest(
            0,
            tuple(view for view in seen for _ in labels),
            tuple(labels) * len(seen),
            tuple(tolerances.tolist()) if tolerances.any() else (),
        )

    def receive(self, event: Event) -> None:
        """See Task.receive."""
        if isinstance(event, Scored):
            self.totals[event.index] = np.frombuffer(event.bits).sum()

    def result(self) -> Classification:
        """Return what the classes say of all images."""
        model = self.model
        bits, compared = of_readings(model.config, self.totals)
        tails = None
        if model.typicality is not None:
            tails = model.typicality.tail_probabilities(mixture_bits(bits), self.images, self.noisy)
        return Classification(model.config.class_names, bits, compared, self.noisy, tails)


def plan(model: ModelInfo, values: ClassifyValues) -> ClassifyTask:
    """Return the task that classifies images; InvalidInput where the model knows no classes."""
    check_classes(model.config)
    return ClassifyTask(model, values.pictures)
