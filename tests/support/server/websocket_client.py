"""A websocket client that keeps everything it receives, by job."""

import json
import struct
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.support.server.running_server import PATIENCE

STREAM = "/v1/images/stream"
FRAME = struct.Struct("<III")  # job, image index, first byte position
LAST = ("done", "error")
# options of a client that leaves what it is sent unread
NOT_READING = {"max_queue": 1, "close_timeout": 0.1}


@dataclass
class JobMessages:
    """Everything that was received for one job."""

    messages: list[dict] = field(default_factory=list)
    # image index, first byte position, bytes
    frames: list[tuple[int, int, bytes]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)  # "started", "frame 3", "image 3", "done"

    @property
    def last(self):
        """What was received last."""
        return self.order[-1]

    def image(self, index):
        """The frames of an image, concatenated; each must begin where the one before it ended."""
        data = b""
        for _, first, more in (frame for frame in self.frames if frame[0] == index):
            assert first == len(data)
            data += more
        return data

    def images(self):
        """[n, N] uint8."""
        return np.stack(
            [np.frombuffer(self.image(index), np.uint8) for index in range(self.messages[0]["n"])]
        )


class WebsocketClient:
    def __init__(self, socket):
        self.socket = socket
        # by id, None without one; the newest where an id was used again
        self.jobs = {}
        self.numbers = {}

    def send(self, **message):
        self.socket.send(json.dumps(message))

    def send_together(self, *messages):
        """Sends messages in one piece, so that the server reads them at once."""
        for message in messages:
            self.socket.protocol.send_text(json.dumps(message).encode())
        self.socket.socket.sendall(b"".join(self.socket.protocol.data_to_send()))

    def receive(self):
        """Receives one message and returns its job, with that message."""
        message = self.socket.recv(timeout=PATIENCE)
        if isinstance(message, bytes):
            number, index, first = FRAME.unpack_from(message)
            job = self.numbers[number]
            job.frames.append((index, first, message[FRAME.size :]))
            job.order.append(f"frame {index}")
            return job
        received = json.loads(message)
        if received["type"] == "started":
            self.jobs[received.get("id")] = self.numbers[received["job"]] = JobMessages()
        job = self.jobs.setdefault(received.get("id"), JobMessages())
        job.messages.append(received)
        job.order.append(
            f"image {received['index']}" if received["type"] == "image" else received["type"]
        )
        return job

    def receive_until_finished(self, jobs):
        """Receives until so many more jobs have had their last message; returns all jobs by id."""
        while jobs:
            jobs -= self.receive().last in LAST
        return self.jobs

    def paint(self, type="generate", **message):
        """Sends a job and receives until it has finished."""
        self.send(type=type, **message)
        while (job := self.receive()).last not in LAST:
            pass
        return job

    def closing_code(self):
        """Receives until the server closes the websocket, and returns the close code."""
        with pytest.raises(ConnectionClosed) as closed:  # noqa: PT012
            while True:
                self.receive()
        return closed.value.rcvd.code


@contextmanager
def connected(url, path=STREAM, **options):
    """A connection to the server at `url` for as long as the context lasts. It reads everything
    that comes, so that it takes part in the closing handshake; with NOT_READING it does not."""
    defaults = {"proxy": None, "open_timeout": PATIENCE, "ping_interval": None, "max_queue": None}
    with connect(f"{url.replace('http', 'ws')}{path}", **{**defaults, **options}) as socket:
        yield WebsocketClient(socket)
