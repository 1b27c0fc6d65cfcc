"""Streams: the frames that are sent in a tick.

The first and last bytes of an image are sent at once, others at a limited rate: a browser that
draws the frames of many images shares our cores, and each frame costs time in the API.

Nothing that was sent may change. Of an image of several candidates, streams get the bytes that its
kind says are final; the others follow when the image is complete. A request may ask for the bytes
of the first candidate beyond them, which are sent as provisional: that one's slot is fetched
anyway. A state snapshot is that of the first candidate.
"""

import time
from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass

import numpy as np

from scanline.model.sampling.assignment import SlotAssignment
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.sampling.launch import Frame, PendingSnapshot

FRAME_SECONDS = 0.0005  # between two frames, all streams together: ten times what one costs the API
REQUEST_PACE = 3  # times FRAME_SECONDS between two frames of one request


@dataclass
class Stream:
    """A request whose images are sent while they are painted, or image 0's state."""

    request: GenerateRequest
    frames_at: float = 0.0  # when its next frames are due, if others have left time for them


class Streams:
    """The requests that are streamed, and when frames were sent last."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.requests: dict[int, Stream] = {}
        self.frames_at = 0.0  # when streams get their next frames

    def add(self, request: GenerateRequest) -> None:
        """Add a request, if it is to be streamed."""
        if request.stream or request.snapshot is not None:
            self.requests[request.id] = Stream(request)

    def drop(self, request: int) -> None:
        """Forget a request, if it is there."""
        self.requests.pop(request, None)

    def due(
        self, assigned: Mapping[int, SlotAssignment], positions: np.ndarray
    ) -> tuple[list[Frame], list[PendingSnapshot]]:
        """Return what is sent of images in slots, which are painted up to
        positions[slot] after the started steps.
        """
        frames: list[Frame] = []
        snapshots: list[PendingSnapshot] = []
        if not self.requests:
            return frames, snapshots
        length = self.generator.config.bytes
        images = [
            (image, self.requests[image.request])
            for image in assigned.values()
            if image.is_wanted and image.request in self.requests
        ]
        due = self._due(
            Counter(image.request for image, stream in images if stream.request.stream),
            time.perf_counter(),
        )
        for image, stream in images:
            stop = image.painted(positions)
            is_last = stop == length
            is_due = is_last or image.request in due
            if stream.request.stream and image.kind.wants_frame(image.framed, stop, is_due):
                # All candidates are fetched, to be compared; of a
                # complete image only the one that is chosen, if it is by now.
                slots = image.ends if is_last else image.candidates
                frames.append(Frame(image, stop, slots, stream.request.provisional))
                image.framed = stop
            snapshot = stream.request.snapshot
            if snapshot is not None and image.index == 0:
                state = self.generator.state(image.slot, *snapshot)
                position = self.generator.position(image.slot)
                snapshots.append(PendingSnapshot(image.request, position, state))
        return frames, snapshots

    def _due(self, images: Mapping[int, int], now: float) -> Container[int]:
        """Return the requests whose streams get frames in this tick, of those with so many images
        in slots: 64 images of one request get them ten times a second."""
        if now < self.frames_at:
            return ()
        self.frames_at = now + FRAME_SECONDS * sum(images.values())
        due = {request for request in images if now >= self.requests[request].frames_at}
        for request in due:
            self.requests[request].frames_at = now + REQUEST_PACE * FRAME_SECONDS * images[request]
        return due
