"""A prefill of images that are classified: after the last byte, the class head reads
them by the torch model, a few at once.
"""

from dataclasses import replace

import numpy as np
import torch

from scanline.model.backends.pending import DeviceClock, Pending, to_host
from scanline.model.network.class_reading import ClassReading, in_threads
from scanline.model.sampling.base.messages import Scored
from scanline.model.sampling.base.prefill_state import PrefillState

AT_ONCE = 4  # images on a GPU, one after the other


class ClassifiedPrefill(PrefillState):
    def __post_init__(self) -> None:
        super().__post_init__()
        images = self.batch.images
        numbers = len(self.model.config.classes) + 1
        self.answers = np.zeros((len(images), numbers), np.float32)  # of the class head
        self.at_once = self.threads if images.device.type == "cpu" else AT_ONCE
        self.classified = 0  # images of which the answers are there
        self.readings: list[ClassReading] = []  # of the images after them, begun

    @property
    def done(self) -> bool:
        return super().done and self.classified == len(self.answers)

    def next_chunk(self, steps: int | None = None) -> Pending[float]:
        """See PrefillState.next_chunk. Once the bytes have been run, start to
        read the next steps of the next images by the class head, IN PLACE.
        """
        if self.position < self.stop:
            return super().next_chunk(steps)
        clock = DeviceClock(self.model.device)
        first = self.classified
        if not self.readings:
            stop = first + self.at_once
            images = self.batch.images[first:stop]
            self.readings = [ClassReading(self.model, image) for image in images.split(1)]
        read = in_threads(self.readings, ClassReading.read, self.model.device)
        answers = [answer for answer in read if answer is not None]
        if not answers:
            return clock.stop()
        # All of them end together.
        self.readings = []
        self.classified += len(answers)
        target = self.answers[first : self.classified]
        arriving = to_host(torch.cat(answers))
        seconds = clock.stop()

        def ended() -> float:
            target[:] = arriving.wait().numpy()
            return seconds.wait()

        return Pending(ended)

    def is_finite(self, row: int) -> bool:
        """See PrefillState.is_finite."""
        is_answer_finite = bool(np.isfinite(self.answers[row]).all())
        return is_answer_finite and super().is_finite(row)

    def scored(self, row: int, request: int, index: int) -> Scored:
        """See PrefillState.scored."""
        scored = super().scored(row, request, index)
        return replace(scored, answer=self.answers[row].tobytes())
