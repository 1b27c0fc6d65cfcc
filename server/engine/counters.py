"""Counters of the API's side of an engine: how requests ended, how
long they took, which were refused.

Keys are few and fixed: operations and reasons, never requests.
"""

import time
from collections import Counter

from scanline.model.sampling.base.histogram import LATENCIES, Histogram
from scanline.model.sampling.base.messages import Stats
from scanline.server.engine.job import Job

OPERATIONS = ("paint", "score")
ENDS = ("finished", "cancelled", "failed")
REFUSALS = (
    "queue_full",
    "client_queue_full",
    "unread_answers",
    "deadline_unreachable",
    "not_ready",
)
KEY_PREFIX = "key "  # of the id of a client that has a key


class RequestCounters:
    """Counts since the server started."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()  # by operation and how they ended
        self.images: Counter[tuple[str, str]] = Counter()
        # finished ones, by the name of their client's API key
        self.images_by_key: Counter[str] = Counter()
        # of finished requests
        self.seconds = {operation: Histogram(LATENCIES) for operation in OPERATIONS}
        self.refused: Counter[str] = Counter()
        self.coalesced = 0  # by jobs that have ended
        self.restarts = 0  # engines started after a crash
        self.ended = Stats()  # what engines that have ended have done
        # what each that has not has done, by its handle: a reload has two
        self.running: dict[int, Stats] = {}

    def end_engine(self, handle: int) -> None:
        """Keep what an engine has done that has ended: the next one counts from 0."""
        self.ended += self.running.pop(handle, Stats())

    def end(self, operation: str, job: Job, began: float) -> None:
        """Count a job that has ended; it began at that time of the monotonic clock."""
        end = "cancelled" if job.images_left else "finished"
        if job.failure is not None:
            end = "failed"
        self.requests[operation, end] += 1
        self.images[operation, "finished"] += job.total - job.images_left
        self.images[operation, end] += job.images_left
        if job.request.client.startswith(KEY_PREFIX):
            self.images_by_key[job.request.client.removeprefix(KEY_PREFIX)] += (
                job.total - job.images_left
            )
        self.coalesced += job.merged
        if end == "finished":
            self.seconds[operation].add(time.monotonic() - began)
