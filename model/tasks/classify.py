"""Classification: every image read without a class by the class head, where the model has one; and by bits under every
class, mirrored too where it was trained on that."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.cleaning import Cleaned
from scanline.model.likelihood import classification
from scanline.model.likelihood.classification import Classification, mixture_bits, readings, views
from scanline.model.sampling.messages import Event, Scored, ScoreRequest
from scanline.model.tasks.task import ReadTask


@dataclass(frozen=True)
class ClassifyValues:
    """What a user says of images to classify, besides the images."""

    pictures: int
    by_bits: bool = True  # also by bits; a model without a class head reads by nothing else


class ClassifyTask(ReadTask):
    """Readings of images: each without a class, where the model has a class head; then of each image, of each view, of
    each class, where they are read by bits."""

    request: ScoreRequest

    def __init__(self, model: ModelInfo, values: ClassifyValues) -> None:
        self.model, self.by_bits = model, values.by_bits or not model.has_class_head
        self.headed = values.pictures if model.has_class_head else 0  # readings without a class, the first ones
        self.count = self.headed + self.by_bits * values.pictures * readings(model.config)
        self.totals = np.full(self.count, np.nan)  # bits of each reading
        self.logits = np.full((self.headed, len(model.config.classes)), np.nan, np.float32)
        self.request = ScoreRequest(0, ())

    def fill(self, images: Sequence[Cleaned]) -> None:
        """See ReadTask.fill."""
        config = self.model.config
        self.images = np.concatenate([part.images for part in images])
        self.noisy = np.concatenate([part.noisy for part in images])
        tolerances = np.concatenate([part.tolerances for part in images])
        labels = tuple(range(1, len(config.classes) + 1))
        plain = self.images[: self.headed]  # all or none
        seen = [view.tobytes() for pair in views(config, self.images) for view in pair] if self.by_bits else []
        each = readings(config) * self.by_bits
        self.request = ScoreRequest(
            0,
            (*(image.tobytes() for image in plain), *(view for view in seen for _ in labels)),
            (0,) * len(plain) + labels * len(seen),
            (*tolerances[: len(plain)].tolist(), *tolerances.repeat(each).tolist()) if tolerances.any() else (),
            classified=len(plain) > 0,
        )

    def receive(self, event: Event) -> None:
        """See Task.receive."""
        if isinstance(event, Scored):
            self.totals[event.index] = np.frombuffer(event.bits).sum()
            if event.logits:
                self.logits[event.index] = np.frombuffer(event.logits, np.float32)

    def result(self) -> Classification:
        """Return what both readings say of all images."""
        model, bits, compared, tails = self.model, None, None, None
        if self.by_bits:
            bits, compared = classification.of_readings(model.config, self.totals[self.headed :])
        if model.typicality is not None:
            whole = mixture_bits(bits) if bits is not None and not self.headed else self.totals[: self.headed]
            tails = model.typicality.tail_probabilities(whole, self.images, self.noisy)
        logits = self.logits if self.headed else None
        return Classification(model.config.class_names, bits, compared, self.noisy, tails, logits)


def plan(model: ModelInfo, values: ClassifyValues) -> ClassifyTask:
    """Return the task that classifies images; InvalidInput where the model knows no classes."""
    classification.check_classes(model.config)
    return ClassifyTask(model, values)
