"""Known bytes of images that are being run through the network, and the state
after them, from which slots may start.

Neither takes a slot, and neither owns weights: `Generator.run_prefill` moves a prefill.
"""

from dataclasses import dataclass, field

import numpy as np

from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.base.state import State
from scanline.model.network.class_reading import ClassReading
from scanline.model.sampling.base.messages import Scored, StepNumbers


@dataclass
class PrefillState:
    """Images whose known bytes are being run through the network, each up to
    its stop, all from one position.
    """

    batch: PrefillBatch  # whose stops are the last; its state stands at `position`
    # [B, max(stops)] float64, of the bytes before the position; 0 from an image's stop on
    bits: np.ndarray
    first: int  # byte that the network runs
    position: int  # or an image's stop, where that is before it
    step_bytes: int
    # [B, K] float32, of images that are classified, after the last byte
    logits: np.ndarray | None = None
    classified: int = 0  # images of which the logits are there
    readings: list[ClassReading] = field(default_factory=list)  # of the images after them, begun

    @property
    def done(self) -> bool:
        return self.position >= self.stop and (
            self.logits is None or self.classified == len(self.logits)
        )

    @property
    def stop(self) -> int:
        """The last of the images' stops."""
        return int(self.batch.stops.max())

    def bits_of(self, row: int) -> np.ndarray:
        """Return bits [stop] float64 of the bytes of one image."""
        return self.bits[row, : self.batch.stops[row]]

    def intervals_of(self, row: int) -> np.ndarray | None:
        """Return start and width uint32 [N, 2] of the bytes of one image that is to be coded."""
        intervals = self.batch.intervals
        return None if intervals is None else intervals[row].cpu().numpy().view(np.uint32)

    def logits_of(self, row: int) -> np.ndarray:
        """Return the logits [K] float32 of one image, [0] where it is not classified."""
        return np.zeros(0, np.float32) if self.logits is None else self.logits[row]

    def numbers(self) -> StepNumbers | None:
        """Return the numbers of the inspected steps, where there are any."""
        return None

    def is_finite(self, row: int) -> bool:
        """Return whether all that the network computed of one image is."""
        bits_are = np.isfinite(self.bits_of(row)[self.first :]).all()
        return bool(bits_are and np.isfinite(self.logits_of(row)).all())

    def scored(self, row: int, request: int, index: int) -> Scored:
        """Return what is reported of one image: image `index` of a request."""
        intervals = self.intervals_of(row)
        coded = b"" if intervals is None else intervals.tobytes()
        bits = self.bits_of(row).tobytes()
        return Scored(request, index, bits, self.numbers(), coded, self.logits_of(row).tobytes())

    def prefix(self, row: int) -> "Prefix":
        """Return a copy of the state of one image after its known bytes."""
        copy = self.batch.state.part(row, row + 1).copy()
        sums = np.cumsum(self.bits_of(row))  # one byte after the other, as painting adds them
        return Prefix(copy, int(self.batch.stops[row]), float(sums[-1]) if len(sums) else 0.0)


@dataclass(frozen=True)
class Prefix:
    """The state after the first bytes of an image, known or painted before; any
    number of slots may start from it.
    """

    state: State  # of one image
    position: int  # the first byte after it
    bits: float  # of the prefix, under the model
    # the first bytes, if they were painted: those that are known are with the image
    painted: bytes = b""
