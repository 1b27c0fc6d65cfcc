"""Classification: every image read without a class by the class head, where the model has one; and
by bits under every class, mirrored too where it was trained on that."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.cleaning import Cleaned
from scanline.model.likelihood import classification
from scanline.model.likelihood.classification import Classification, mixture_bits, readings, views
from scanline.model.sampling.base.messages import Event, Scored, ScoreRequest
from scanline.model.tasks.task import ReadTask


@dataclass(frozen=True)
class ClassifyValues:
    """What a user says of images to classify, besides the images."""

    pictures: int
    by_bits: bool = False  # also by bits; a model without a class head reads by nothing else


class ClassifyTask(ReadTask):
    """Readings of images: each without a class, where the model has a class head; then of each
    image, of each view, of each class, where they are read by bits."""

    def __init__(self, model: ModelInfo, values: ClassifyValues) -> None:
        self.model = model
        self.by_bits = values.by_bits or not model.has_class_head
        # readings without a class, the first ones
        self.headed = values.pictures if model.has_class_head else 0
        self.count = self.headed + self.by_bits * values.pictures * readings(model.config)
        self.totals = np.full(self.count, np.nan)  # bits of each reading
        numbers = len(model.config.classes) + 1
        self.answers = np.full((self.headed, numbers), np.nan, np.float32)  # of the class head

    def fill(self, images: Sequence[Cleaned]) -> None:
        """See ReadTask.fill."""
        config = self.model.config
        self.images = np.concatenate([part.images for part in images])
        self.noisy = np.concatenate([part.noisy for part in images])
        of_image = np.concatenate([part.tolerances for part in images])
        # First each image without a class, for the class head.
        copies = [image.tobytes() for image in self.images[: self.headed]]
        labels = [0] * self.headed
        tolerances = of_image[: self.headed].tolist()
        # Then each view of each image under each class.
        if self.by_bits:
            classes = range(1, len(config.classes) + 1)
            for views_of_image in views(config, self.images):
                for view in views_of_image:
                    copies += [view.tobytes()] * len(classes)
                    labels += classes
            tolerances += of_image.repeat(readings(config)).tolist()
        self.request = ScoreRequest(
            0,
            tuple(copies),
            tuple(labels),
            tuple(tolerances) if any(tolerances) else (),
            classified=self.headed > 0,
        )

    def receive(self, event: Event) -> None:
        """See Task.receive."""
        if isinstance(event, Scored):
            self.totals[event.index] = np.frombuffer(event.bits).sum()
            if event.answer:
                self.answers[event.index] = np.frombuffer(event.answer, np.float32)

    def result(self) -> Classification:
        """Return what both readings say of all images."""
        config = self.model.config
        bits = None
        compared = None
        if self.by_bits:
            bits, compared = classification.of_readings(config, self.totals[self.headed :])
        tails = None
        if self.model.typicality is not None:
            # Of the reading without a class; where there is none, of the mixture of those under
            # each class.
            totals = self.totals[: self.headed]
            if bits is not None and not self.headed:
                totals = mixture_bits(bits)
            tails = self.model.typicality.tail_probabilities(totals, self.images, self.noisy)
        logits = None
        is_strange_by_head = False
        if self.headed:
            logits = self.answers[:, :-1]
            # a share of a thousand drawings, without the digits that float32 adds
            usual = self.answers[:, -1].astype(np.float64).round(6)
            is_strange_by_head = bool((usual >= 0).all())
            if is_strange_by_head:
                tails = usual
        if tails is not None:
            # A picture of one colour shows nothing, whatever a head says of it.
            pixels = self.images.reshape(len(self.images), -1, config.channels)
            is_blank = (pixels == pixels[:, :1]).all(axis=(1, 2))
            tails = np.where(is_blank, 0.0, tails)
        temperature = self.model.temperature_by_bits
        return Classification(
            config.class_names,
            bits,
            compared,
            self.noisy,
            tails,
            logits,
            temperature,
            is_strange_by_head,
        )


def plan(model: ModelInfo, values: ClassifyValues) -> ClassifyTask:
    """Return the task that classifies images; InvalidInput where the model knows no classes."""
    classification.check_classes(model.config)
    return ClassifyTask(model, values)
