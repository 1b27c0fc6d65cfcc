"""Streams and edits of several particles that clients wait for
while something happens to a cluster.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import httpx
import numpy as np
from websockets.exceptions import WebSocketException

from scanline.model.formats.checkpoint import load_model
from scanline.model.tasks.offline import paint
from tests.support.hosts.three_machines import Machines
from tests.support.pictures import encode, noise, painted, text
from tests.support.server.websocket_client import LAST, JobMessages, connected
from tests.support.waiting import PATIENCE, wait_for

# requests
STREAMS = 64
EDITS = 8
DEADLINE = 120  # seconds from a fault to the last answer, for what takes a few seconds without it
# images of each stream and of each edit
STREAMED = 18
COMPLETED = 4
PARTICLES = 4


@dataclass
class Work:
    """Requests in progress. Each thread writes what belongs to its own request."""

    machines: Machines
    streams: dict[int, JobMessages] = field(default_factory=dict)  # by seed
    edits: dict[int, np.ndarray] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    ended: dict[str, float] = field(default_factory=dict)  # monotonic times, by request
    lost: int = 0  # shards that others painted
    # their monotonic times, by seed
    frames: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))

    def has_begun(self) -> bool:
        """Whether the first streams have frames: then each replica has work, if
        all work that fits was dispatched.
        """
        assert not self.failures, self.failures
        return sum(bool(job.frames) for job in self.streams.values()) >= min(3, STREAMS)

    def stream(self, seed: int) -> None:
        with connected(self.machines.url) as client:
            client.send(type="generate", id="a", n=STREAMED, seed=seed)
            while (job := client.receive()).order[-1] not in LAST:
                self.streams[seed] = job
                if job.order[-1].startswith("frame"):
                    self.frames[seed].append(time.monotonic())
            assert job.messages[-1] == {"type": "done", "id": "a"}, job.messages[-1]

    def edit(self, seed: int) -> None:
        image, hole = masked(self.machines)
        body = {
            "image": text(encode(image)),
            "mask": text(encode(hole)),
            "n": COMPLETED,
            "particles": PARTICLES,
        }
        with self.machines.client() as client:
            answer = client.post("/v1/images/edits", json={**body, "seed": seed})
        assert answer.status_code == 200, answer.text
        self.edits[seed] = painted(answer.json())

    def check(self) -> None:
        """Every request has been answered once, with the bytes of one machine."""
        assert not self.failures, self.failures
        assert (len(self.streams), len(self.edits)) == (STREAMS, EDITS)
        image, hole = masked(self.machines)
        for seed, job in self.streams.items():
            # `images` also finds frames that repeat or skip bytes
            assert np.array_equal(job.images(), painted_alone(self.machines, seed)), (
                f"stream {seed}"
            )
            images = [what for what in job.order if what.startswith("image")]
            assert sorted(images) == sorted(f"image {index}" for index in range(STREAMED)), (
                f"stream {seed}"
            )
        model = load_model(self.machines.model)
        for seed, answer in self.edits.items():
            known = image.reshape(-1), (hole == 255).reshape(-1)
            alone = paint(
                model, COMPLETED, seed=seed, known=known[0], mask=known[1], particles=PARTICLES
            ).images
            assert np.array_equal(answer.reshape(COMPLETED, -1), alone), f"edit {seed}"


@contextmanager
def work(machines: Machines) -> Iterator[Work]:
    """Streams and edits that have begun; all have ended after the context."""
    begun = Work(machines)
    kinds = [("stream", begun.stream, STREAMS), ("edit", begun.edit, EDITS)]

    def do(name: str, request: Callable[[int], None], seed: int) -> None:
        try:
            request(seed)
        except (
            AssertionError,
            OSError,
            TimeoutError,
            httpx.HTTPError,
            WebSocketException,
        ) as failure:
            failure.add_note(f"{name} {seed}")
            begun.failures.append(failure)
        begun.ended[f"{name} {seed}"] = time.monotonic()

    requests = [(name, request, seed) for name, request, count in kinds for seed in range(count)]
    threads = [threading.Thread(target=do, args=each) for each in requests]
    for thread in threads:
        thread.start()
    lost = machines.lost_shards()
    try:
        wait_for(begun.has_begun, "streams with frames")
        yield begun
    finally:
        for thread in threads:
            thread.join(PATIENCE)
    begun.lost = machines.lost_shards() - lost
    assert not any(thread.is_alive() for thread in threads), "a request without an answer"


def answered(begun: Work, fault: float) -> None:
    """Check all answers, and when the last one came."""
    begun.check()
    last = max(begun.ended.values()) - fault
    assert last < DEADLINE
    pause = max(
        after - before for times in begun.frames.values() for before, after in pairwise(times)
    )
    times = f"last answer {last:.1f} s after the fault, longest pause of a stream {pause:.1f} s"
    print(f"{times}, {begun.lost} shards painted by others")


def work_answered(machines: Machines) -> None:
    """Let clients have work done, with no fault meanwhile."""
    with work(machines) as begun:
        start = time.monotonic()
    answered(begun, start)


@cache
def masked(machines: Machines) -> tuple[np.ndarray, np.ndarray]:
    """An image and its mask [H, W] uint8, with known bytes before,
    between and after the bytes to paint.
    """
    config = load_model(machines.model).config
    image = noise(config.height, config.width)
    hole = np.full((config.height, config.width), 255, np.uint8)
    hole[config.height // 4 : -2, 2:-2] = 0
    return image, hole


@cache
def painted_alone(machines: Machines, seed: int) -> np.ndarray:
    """[n, N] uint8: what a stream must bring, painted without a server."""
    return paint(load_model(machines.model), STREAMED, seed=seed).images.reshape(STREAMED, -1)
