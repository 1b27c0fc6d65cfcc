"""Replicas of a cluster in this process, with real engines: Serve's handle
without Serve, for a `ReplicaPool`.

Only the transport is missing. A test chooses by `route` which replica gets the next shard.
"""

from contextlib import AsyncExitStack, asynccontextmanager
from itertools import repeat

from scanline.model.formats.checkpoint import load_model
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.offline import paint
from scanline.server.cluster.arguments import ClusterSettings
from scanline.server.cluster.replica import Replica
from scanline.server.engine.queue_limits import QueueLimits
from scanline.server.engine.remote.over_ray import ReplicaPool
from scanline.server.engine.worker.process import EngineOptions
from tests.support.engine.jobs import PaintJob


class Call:
    """A shard on a replica: an iterator of its events that can be cancelled."""

    def __init__(self, events):
        self.events = events
        self.cancelled = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.cancelled:
            raise StopAsyncIteration
        return await anext(self.events)

    def cancel(self):
        self.cancelled = True


class Answers:
    """The answers of all replicas to a poll."""

    def __init__(self, statuses):
        self.statuses = statuses

    async def results_async(self, **_):
        return [await status for status in self.statuses]


class LocalReplica(Replica):
    """A replica that its test closes: Serve awaits `__del__`, the garbage collector does not."""

    def __del__(self):
        pass


class LocalReplicas:
    """What a ReplicaPool uses of a DeploymentHandle."""

    def __init__(self, *replicas):
        self.replicas = list(replicas)
        self.sent = []  # all shards, and where they went
        self.route = lambda _: self.replicas[len(self.sent) % len(self.replicas)]

    def options(self, **_):
        return self

    def remote(self, command, route):
        replica = self.route(command)
        self.sent.append((command, replica))
        return Call(replica.run(command, route))

    def broadcast(self, _, ingress, images):
        return Answers([replica.status(ingress, images) for replica in self.replicas])


def paint_job(pool, n):
    return PaintJob(GenerateRequest(next(pool.request_ids), n, seed=7))


def painted_alone(directory, n):
    """[n, N] uint8: what one machine paints for that job."""
    return paint(load_model(directory), n, seed=7).images.reshape(n, -1)


@asynccontextmanager
async def replica_of(directory, **settings):
    replica = LocalReplica.__new__(LocalReplica)
    settings = {"slots": 32, "threads": 1, **settings}
    await Replica.__init__(replica, ClusterSettings(**settings), str(directory))
    try:
        yield replica
    finally:
        await replica.engine.close()


@asynccontextmanager
async def local_pool(*directories, settings=None):
    """A pool over one replica of each directory's model, that has polled them once; settings: of
    each replica, where they have any."""
    async with AsyncExitStack() as stack:
        replicas = []
        for directory, of_replica in zip(directories, settings or repeat({}), strict=False):
            replica = replica_of(directory, **of_replica)
            replicas.append(await stack.enter_async_context(replica))
        handle = LocalReplicas(*replicas)
        pool = ReplicaPool(handle, 1, EngineOptions(directories[0]), QueueLimits(10_000))
        pool.start()
        stack.push_async_callback(pool.close)
        await pool.settled()
        yield handle, pool
