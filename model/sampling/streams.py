"""What streams get in a tick: first and last bytes of an image at once, others as often as there is time for.

A browser that draws the frames of many images shares our cores, and each frame costs the API's side.
"""

import time
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from scanline.model.sampling.generator import Generator
from scanline.model.sampling.launch import Piece, Snapshot
from scanline.model.sampling.messages import GenerateRequest
from scanline.model.sampling.scheduler import SlotAssignment

FRAME_SECONDS = 0.0005  # between two frames, all streams together: ten times what one costs the API's side
REQUEST_PACE = 3  # times FRAME_SECONDS between two frames of one request


@dataclass
class ActiveRequest:
    """A GenerateRequest of which not all images have been sent."""

    request: GenerateRequest
    left: int  # images that have not been sent
    accepted: float = field(default_factory=time.monotonic)
    is_scheduled: bool = False  # its first image has had a slot
    frames_at: float = 0.0  # when its streams get their next frames, if others have left time for them


class Streams:
    """When frames were sent last."""

    def __init__(self, generator: Generator) -> None:
        self.generator = generator
        self.frames_at = 0.0  # when streams get their next frames

    def due(
        self, requests: Mapping[int, ActiveRequest], assigned: Mapping[int, SlotAssignment], positions: np.ndarray
    ) -> tuple[list[Piece], list[Snapshot]]:
        """What is sent of the images in slots, which are painted up to positions[slot] once the started steps end."""
        streamed = {number for number, active in requests.items() if active.request.stream}
        watched = {number: one.request.snapshot for number, one in requests.items() if one.request.snapshot}
        pieces: list[Piece] = []
        if streamed:
            streams = [one for one in assigned.values() if one.request in streamed]
            pieces = self._pieces(streams, self._due(streams, requests, time.monotonic()), positions)
        snapshots = []
        for one in assigned.values() if watched else ():
            if one.index == 0 and (layer_and_head := watched.get(one.request)):
                state = self.generator.state(one.slot, *layer_and_head)
                snapshots.append(Snapshot(one.request, int(positions[one.slot]), state))
        return pieces, snapshots

    def _pieces(self, streams: Sequence[SlotAssignment], due: Container[int], positions: np.ndarray) -> list[Piece]:
        length, pieces = self.generator.config.bytes, []
        for one in streams:
            stop = int(positions[one.slot])
            if stop > one.sent and (one.request in due or not one.sent or stop == length):
                pieces.append(Piece(one, one.sent, stop))
                one.sent = stop
        return pieces

    def _due(
        self, streams: Sequence[SlotAssignment], requests: Mapping[int, ActiveRequest], now: float
    ) -> Container[int]:
        """The requests whose streams get frames in this tick. 64 images of one request get them ten times a second."""
        if now < self.frames_at:
            return ()
        self.frames_at = now + FRAME_SECONDS * len(streams)
        images = Counter(one.request for one in streams)
        due = {request for request in images if now >= requests[request].frames_at}
        for request in due:
            requests[request].frames_at = now + REQUEST_PACE * FRAME_SECONDS * images[request]
        return due
