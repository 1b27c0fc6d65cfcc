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
        classes = len(self.model.config.classes)
        self.logits = np.zeros((len(images), classes), np.float32)
        self.at_once = self.threads if images.device.type == "cpu" else AT_ONCE
        self.classified = 0  # images of which the logits are there
        self.readings: list[ClassReading] = []  # of the images after them, begun

    @property
    def done(self) -> bool:
        return super().done and self.classified == len(self.logits)

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
        logits = [of_image for of_image in read if of_image is not None]
        if not logits:
            return clock.stop()
        # All of them end together.
        self.readings = []
        self.classified += len(logits)
        target = self.logits[first : self.classified]
        arriving = to_host(torch.cat(logits))
        seconds = clock.stop()

        def ended() -> float:
            target[:] = arriving.wait().numpy()
            return seconds.wait()

        return Pending(ended)

    def is_finite(self, row: int) -> bool:
        """See PrefillState.is_finite."""
        are_logits_finite = bool(np.isfinite(self.logits[row]).all())
        return are_logits_finite and super().is_finite(row)

    def scored(self, row: int, request: int, index: int) -> Scored:
        """See PrefillState.scored."""
        scored = super().scored(row, request, index)
        logits = self.logits[row].tobytes()
        return replace(scored, logits=logits)
