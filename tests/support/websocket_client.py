"""A websocket client that keeps what it is told, job by job."""

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from websockets.sync.client import ClientConnection, connect

from tests.support.running_server import PATIENCE

FRAME = struct.Struct("<III")  # job, image index, first byte position
LAST = ("done", "error")
DEAF = {"max_queue": 1, "close_timeout": 0.1}


@dataclass
class Told:
    """All that was told of one job."""

    messages: list[dict] = field(default_factory=list)
    frames: list[tuple[int, int, bytes]] = field(default_factory=list)  # image index, first byte position, bytes
    order: list[str] = field(default_factory=list)  # "started", "frame 3", "image 3", "done"

    def image(self, index: int) -> bytes:
        """The frames of an image, one after the other; each must begin where the one before it ended."""
        data = b""
        for _, first, more in (frame for frame in self.frames if frame[0] == index):
            assert first == len(data)
            data += more
        return data

    def images(self) -> np.ndarray:
        """[n, N] uint8."""
        return np.stack([np.frombuffer(self.image(index), np.uint8) for index in range(self.messages[0]["n"])])


class Painter:
    """One connection."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.jobs: dict[object, Told] = {}  # by id, None where there is none; the newest where an id came back
        self.numbers: dict[int, Told] = {}

    def send(self, **message: object) -> None:
        self.socket.send(json.dumps(message))

    def send_together(self, *messages: dict[str, Any]) -> None:
        """Sends messages so that the server reads them at once."""
        for message in messages:
            self.socket.protocol.send_text(json.dumps(message).encode())
        self.socket.socket.sendall(b"".join(self.socket.protocol.data_to_send()))

    def hear(self) -> Told:
        """The job that the next message is about, with that message."""
        message = self.socket.recv(timeout=PATIENCE)
        if isinstance(message, bytes):
            number, index, first = FRAME.unpack_from(message)
            job = self.numbers[number]
            job.frames.append((index, first, message[FRAME.size :]))
            job.order.append(f"frame {index}")
            return job
        heard = json.loads(message)
        if heard["type"] == "started":
            self.jobs[heard.get("id")] = self.numbers[heard["job"]] = Told()
        job = self.jobs.setdefault(heard.get("id"), Told())
        job.messages.append(heard)
        job.order.append(f"image {heard['index']}" if heard["type"] == "image" else heard["type"])
        return job

    def hear_ends(self, jobs: int) -> dict[object, Told]:
        """What is told by id, once so many jobs more have had their last message."""
        while jobs:
            jobs -= self.hear().order[-1] in LAST
        return self.jobs

    def paint(self, **message: object) -> Told:
        """All that is told of one job, sent now."""
        self.send(**message)
        while (job := self.hear()).order[-1] not in LAST:
            pass
        return job


@contextmanager
def connected(url: str, path: str = "/v1/images/stream", **options: Any) -> Iterator[Painter]:
    """A connection to the server at `url` for as long as the context lasts.

    It takes all that comes, heard or not, so that it hears the server's goodbye; with DEAF nothing that is not heard.
    """
    quiet = {"proxy": None, "open_timeout": PATIENCE, "ping_interval": None, "max_queue": None}
    with connect(f"{url.replace('http', 'ws')}{path}", **{**quiet, **options}) as socket:
        yield Painter(socket)
