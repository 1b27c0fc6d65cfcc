"""A replica whose engine sleeps: each image keeps a slot for IMAGE_SECONDS, and nothing is painted.

All else is the cluster's own: ingress, router, proxy, the replica's process and its streams. So a machine without a GPU
can have the processes of a hundred, at a rate that its processors can follow. None of them imports torch.
"""

import asyncio
from collections import deque

from scanline.model.formats.model_dir import load_config
from scanline.model.sampling.messages import Finished, Ready, Stats
from scanline.server.cluster import replica
from scanline.server.cluster.arguments import ClusterSettings
from scanline.server.engine.handle import EngineHandle
from scanline.server.engine.job import Job
from scanline.server.engine.worker.process import EngineOptions

IMAGE_SECONDS = 2.0  # a replica has slots / IMAGE_SECONDS images/s; on an H100 it is 0.5 with 4,096 slots


class SleepingEngine(EngineHandle):
    """An engine in the replica's own process; images that begin together end together, as those of a shard do."""

    is_ready, heartbeat_age, restarts, load_seconds = True, 0.0, 0, 0.0

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self.image = bytes(load_config(options.directory).bytes)
        self.waiting: deque[tuple[Job, int]] = deque()
        self.running = 0

    slots = property(lambda self: self.options.slots)
    stats = property(lambda self: Stats(images_running=self.running, images_waiting=len(self.waiting)))

    def start(self) -> None:
        self.ready = Ready(0, self.slots, "none", 0, "sleep", digest="sleep")

    async def close(self) -> None:
        """Do nothing."""

    def _begin(self, job: Job) -> None:
        self.waiting.extend((job, index) for index in job.request.indices)
        self._fill()

    def _leave(self, job: Job) -> None:
        if not job.has_ended:
            self.waiting = deque(entry for entry in self.waiting if entry[0] is not job)

    def _fill(self) -> None:
        taken = [self.waiting.popleft() for _ in range(min(self.slots - self.running, len(self.waiting)))]
        if taken:
            self.running += len(taken)
            asyncio.get_running_loop().call_later(IMAGE_SECONDS, self._finish, taken)

    def _finish(self, taken: list[tuple[Job, int]]) -> None:
        self.running -= len(taken)
        for job, index in taken:
            job.receive(Finished(job.id, index, self.image, 1.0))
        self._fill()


class SleepingReplica(replica.Replica):
    """What Serve deploys in place of a Replica."""

    async def __init__(self, settings: ClusterSettings, model: str) -> None:
        replica.EngineClient = SleepingEngine
        await super().__init__(settings, model)
