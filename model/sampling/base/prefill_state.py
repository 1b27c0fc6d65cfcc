"""Known bytes of images that are being run through the network, and the state
after them, from which slots may start.

Neither takes a slot. What is computed besides the bits of the bytes stands in a file each of
`model/sampling/prefill/`.
"""

from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

import numpy as np
import torch

from scanline.model.backends.backend import Backend
from scanline.model.backends.pending import Pending
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.base.state import State
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.messages import Scored, StepRange


@dataclass
class PrefillState:
    """Images whose known bytes are being run through the network, each up to
    its stop, all from one position.
    """

    reading: "Reading"
    model: Transformer
    backend: Backend
    threads: int  # of the host
    batch: PrefillBatch  # whose stops are the last; its state stands at `position`
    # [B, max(stops)] float64, of the bytes before the position; 0 from an image's stop on
    bits: np.ndarray

    images_at_once: ClassVar[float] = inf
    has_own_pace: ClassVar[bool] = False  # its time says nothing about that of others
    state_dtype: ClassVar[torch.dtype | None] = None  # the backend's
    in_chunks: ClassVar[bool] = False  # its bits do not depend on how the bytes are divided

    def __post_init__(self) -> None:
        # the byte that comes next, or an image's stop, where that is before it
        self.position = self.model.config.first

    @property
    def done(self) -> bool:
        return self.position >= self.stop

    @property
    def stop(self) -> int:
        """The last of the images' stops."""
        return int(self.batch.stops.max())

    def next_chunk(self, steps: int | None = None) -> Pending[float]:
        """Start to run the next `steps` steps, IN PLACE: all of them by default, and where the
        backend would round differently in chunks. Return the device's seconds; the bits are
        there once these have been waited for."""
        start = self.position
        self.position = self.stop
        if steps is not None and (self.in_chunks or self.backend.prefills_in_chunks):
            step_bytes = self.model.config.step_bytes
            self.position = min(self.stop, start + steps * step_bytes)
        if start >= self.position:
            return Pending.ended(0.0)
        return self.read(start, self.position)

    @torch.inference_mode()
    def read(self, start: int, stop: int) -> Pending[float]:
        """Start to run the bytes `start` to `stop` - 1, IN PLACE."""
        # The backend moves each image to its own stop; one that is there already costs nothing.
        stops = np.minimum(self.batch.stops, stop)
        started = self.backend.start_prefill(replace(self.batch, stops=stops, start=start))

        def ended() -> float:
            seconds, bits = started.wait()
            self.bits[:, :stop] += bits
            return seconds

        pending = Pending(ended)
        if not self.backend.is_asynchronous:
            pending.wait()
        return pending

    def bits_of(self, row: int) -> np.ndarray:
        """Return bits [stop] float64 of the bytes of one image."""
        return self.bits[row, : self.batch.stops[row]]

    def is_finite(self, row: int) -> bool:
        """Return whether all that the network computed of one image is."""
        computed = self.bits_of(row)[self.model.config.first :]
        return bool(np.isfinite(computed).all())

    def scored(self, row: int, request: int, index: int) -> Scored:
        """Return what is reported of one image: image `index` of a request."""
        return Scored(request, index, self.bits_of(row).tobytes())

    def prefix(self, row: int) -> "Prefix":
        """Return a copy of the state of one image after its known bytes."""
        copy = self.batch.state.part(row, row + 1).copy()
        sums = np.cumsum(self.bits_of(row))  # one byte after the other, as painting adds them
        return Prefix(copy, int(self.batch.stops[row]), float(sums[-1]) if len(sums) else 0.0)


@dataclass(frozen=True)
class Reading:
    """What a prefill computes besides bits: that of `run`.
    Only prefills of equal readings share a batch.
    """

    run: type[PrefillState] = PrefillState
    is_tolerant: bool = False  # a byte costs what it and those like it cost together
    inspected: StepRange | None = None


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
