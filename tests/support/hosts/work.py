"""Streams and edits of several particles that clients wait for
while something happens to a cluster.
"""

import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise

import numpy as np

from scanline.model.formats.checkpoint import load_model
from scanline.model.tasks.offline import paint
from tests.support.pictures import encode, noise, painted, text
from tests.support.server.websocket_client import LAST, connected
from tests.support.waiting import wait_for

# requests
STREAMS = 64
EDITS = 8
DEADLINE = 120  # seconds from a fault to the last answer, for what takes a few seconds without it
# images of each stream and of each edit
STREAMED = 18
COMPLETED = 4
PARTICLES = 4


class Work:
    """Requests in progress."""

    def __init__(self, machines, pool):
        self.machines = machines
        self.frames = defaultdict(list)  # their monotonic times, by seed
        self.ended = 0.0  # monotonic time of the last answer
        self.lost = 0  # shards that others painted
        self.streams = [pool.submit(self._stream, seed) for seed in range(STREAMS)]
        self.edits = [pool.submit(self._edit, seed) for seed in range(EDITS)]

    def has_begun(self):
        """Whether the first streams have frames: then each replica has work, if
        all work that fits was dispatched.
        """
        return len(self.frames) >= 3

    def check(self):
        """Every request has been answered once, with the bytes of one machine."""
        for seed, stream in enumerate(self.streams):
            job = stream.result()
            # `images` also finds frames that repeat or skip bytes
            assert np.array_equal(job.images(), painted_alone(self.machines, seed)), seed
            images = sorted(what for what in job.order if what.startswith("image"))
            assert images == sorted(f"image {index}" for index in range(STREAMED)), seed
        image, mask = masked(self.machines)
        model = load_model(self.machines.model)
        known = {"known": image.reshape(-1), "mask": mask.reshape(-1) == 255}
        for seed, edit in enumerate(self.edits):
            alone = paint(model, COMPLETED, seed=seed, particles=PARTICLES, **known)
            assert np.array_equal(edit.result().reshape(COMPLETED, -1), alone.images), seed

    def _stream(self, seed):
        with connected(self.machines.url) as client:
            client.send(type="generate", id="a", n=STREAMED, seed=seed)
            while (job := client.receive()).order[-1] not in LAST:
                if job.order[-1].startswith("frame"):
                    self.frames[seed].append(time.monotonic())
        self.ended = time.monotonic()
        assert job.messages[-1] == {"type": "done", "id": "a"}, job.messages[-1]
        return job

    def _edit(self, seed):
        image, mask = masked(self.machines)
        body = {"image": text(encode(image)), "mask": text(encode(mask)), "n": COMPLETED}
        body |= {"particles": PARTICLES, "seed": seed}
        with self.machines.client() as client:
            answer = client.post("/v1/images/edits", json=body)
        self.ended = time.monotonic()
        assert answer.status_code == 200, answer.text
        return painted(answer.json())


@contextmanager
def work(machines):
    """Streams and edits that have begun; all have ended after the context."""
    lost = machines.lost_shards()
    with ThreadPoolExecutor(STREAMS + EDITS) as pool:
        begun = Work(machines, pool)
        wait_for(begun.has_begun, "streams with frames")
        yield begun
    begun.lost = machines.lost_shards() - lost


def answered(begun, fault):
    """Check all answers, and when the last one came."""
    begun.check()
    last = begun.ended - fault
    assert last < DEADLINE
    pauses = [
        after - before for times in begun.frames.values() for before, after in pairwise(times)
    ]
    print(
        f"last answer {last:.1f} s after the fault, longest pause of a stream {max(pauses):.1f} s,"
        f" {begun.lost} shards painted by others"
    )


def work_answered(machines):
    """Let clients have work done, with no fault meanwhile."""
    with work(machines) as begun:
        start = time.monotonic()
    answered(begun, start)


@cache
def masked(machines):
    """An image and its mask [H, W] uint8, with known bytes before,
    between and after the bytes to paint.
    """
    config = load_model(machines.model).config
    image = noise(config.height, config.width)
    mask = np.full_like(image, 255)
    mask[config.height // 4 : -2, 2:-2] = 0
    return image, mask


@cache
def painted_alone(machines, seed):
    """[n, N] uint8: what a stream must bring, painted without a server."""
    return paint(load_model(machines.model), STREAMED, seed=seed).images.reshape(STREAMED, -1)
