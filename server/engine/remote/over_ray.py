"""Requests to the engines of a cluster's replicas: split into shards, of which
those of lost replicas are repeated.

All ingresses together dispatch only as many images as the replicas have slots, and a quarter more
so that no slot runs empty. The rest waits here and goes to whichever replica has room next,
including a new one, in the order of a `FairQueue`. One job is painted by one model: its shards
carry the digest of the first replica that answered, and a replica with another digest refuses them.
Images are counted as the slots that they take. Those of a code have one together and stay on one
replica, since they are decoded one after the other. Knows no HTTP, and nothing of images but their
indices.
"""

import asyncio
import logging
import secrets
from collections import Counter, deque
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from time import monotonic
from typing import Any, cast

from grpc import RpcError
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator

from scanline.model.base.config import ModelConfig
from scanline.model.base.sampling_options import Defaults
from scanline.model.sampling.base.messages import Event, Failed, Finished, Scored, Stats
from scanline.server.engine.handle import EngineUnavailableError
from scanline.server.engine.job import Job
from scanline.server.engine.queue_limits import UNLIMITED, QueueLimits
from scanline.server.engine.remote.fair_queue import FairQueue, ShardedJob
from scanline.server.engine.remote.remote_engine import RemoteEngine
from scanline.server.engine.remote.status import EngineStatus
from scanline.server.engine.worker.process import EngineOptions

log = logging.getLogger("scanline.cluster")

OVERCOMMIT = 1.25  # images handed out for each slot
SHARDS_PER_REPLICA = 16
# that fill its slots: each costs an ingress and a replica's process 1.6 ms
MAX_SHARDS_PER_REPLICA = 64
# images
MIN_SHARD = 16
MAX_SHARD = 256
# seconds, by losses of a shard with no image finished in between
RETRY_PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
STARTUP_SECONDS = 30.0  # that a new ingress waits for its first poll
POLL_SECONDS = 2.0  # between two polls of all replicas
POLL_SECONDS_PER_REPLICA = 0.02  # the least, where there are hundreds of replicas
POLL_TIMEOUT = 10.0
# after which another replica paints a shard; a replica sends something every few seconds
SILENCE_SECONDS = 30.0
REPLACED = "The model was replaced by another one while it worked on this request; send it again."
GIVEN_UP = "The replicas that worked on this request were lost, one after the other."
BROKEN = "The server failed while it distributed this request over its replicas; its log says why."
MIXED = (
    "the replicas of %s have other weights, builds, precisions or devices than each other, and share"
    " no request: their digests are %s"
)
Counts = tuple[Stats, int]  # what a replica has done, and how often its engine was restarted


class OtherModelError(Exception):
    """A shard met a replica whose model is not the one that paints the rest of its request."""


class SilentReplicaError(Exception):
    """A replica sends nothing: its machine was lost without a word, is cut off, or stands still."""


LOST = (RayError, RayServeException, RpcError, EngineUnavailableError, OtherModelError)


@dataclass
class Route:
    """Which replica has a shard, set by the router of this
    process. It reaches the replica empty.
    """

    replica: Any = None
    # the router's: when each replica sent something last
    signs: dict[Any, float] = field(default_factory=dict)

    def record_sign(self) -> None:
        """Record that the replica has just sent something."""
        if self.replica in self.signs:
            self.signs[self.replica] = monotonic()

    def __reduce__(self) -> tuple[type["Route"], tuple[()]]:
        return Route, ()


class ReplicaPool(RemoteEngine):
    """All replicas of one model, behind Serve's handle."""

    def __init__(
        self,
        handle: DeploymentHandle[Any],
        ingresses: int,
        options: EngineOptions,
        limits: QueueLimits = UNLIMITED,
        sleeps: bool = False,
    ) -> None:
        """`sleeps`: while there are no requests, there may be no replicas."""
        super().__init__(options, limits, ingresses)
        self.handle = handle
        self.sleeps = sleeps
        # Over gRPC: where an actor's method streams, Ray waits in the actor's event loop until the
        # caller has the last item, and a caller that is cut off would stop the whole replica.
        self.run_on_replica = handle.options(method_name="run", stream=True, _by_reference=False)
        self.name = secrets.token_hex(8)  # of this ingress, for the replicas
        self.first_answer = asyncio.Event()
        self.closing = False
        self.outstanding = 0  # images of this ingress at replicas
        self.counts: dict[str, Counts] = {}  # of the replicas that answer, by their names
        self.gone: dict[str, Counts] = {}  # of those that have answered
        self.past = Stats()  # of these together
        self.digests: set[str] = set()  # of those that paint
        self.queue = FairQueue()  # jobs with images that were not dispatched
        self.sharded: dict[int, ShardedJob] = {}  # by job

    def start(self) -> None:
        """Start polling the replicas."""
        self.poller = asyncio.create_task(self._poll())

    async def settled(self) -> None:
        """Wait a while for the first poll, so that a new ingress does not
        refuse what the others would accept.
        """
        with suppress(TimeoutError):
            await asyncio.wait_for(self.first_answer.wait(), STARTUP_SECONDS)

    async def model(self) -> tuple[ModelConfig, Defaults]:
        """Return the model's configuration and the defaults of its
        requests once a replica has answered.
        """
        await self.first_answer.wait()
        return self.known[0].config, self.known[0].defaults

    async def close(self) -> None:
        """Stop polling. The replicas are Serve's to stop."""
        self.closing = True
        self.poller.cancel()
        await asyncio.gather(self.poller, return_exceptions=True)

    def update(self, statuses: list[EngineStatus], others: int) -> None:
        """Take in newer statuses of all replicas that answer."""
        super().update(statuses, others)
        self._count_replicas(statuses)
        slots: Counter[str] = Counter()
        serving = [status for status in statuses if status.is_ready] or self.known
        for status in serving:
            slots[status.whole_digest] += status.slots
        if len(slots) > 1 and slots.keys() != self.digests:
            log.warning(MIXED, self.options.name, " and ".join(sorted(slots)))
        self.digests = {*slots}
        if serving:
            most = slots.most_common(1)[0][0]
            self.ready = next(status.ready for status in serving if status.whole_digest == most)

    def _count_replicas(self, statuses: list[EngineStatus]) -> None:
        """Keep what replicas have done that do not answer: another one, in the
        place of one that ended, begins at 0.
        """
        counts = {status.replica: (status.stats.done, status.restarts) for status in statuses}
        gone = {
            name: count for name, count in (self.gone | self.counts).items() if name not in counts
        }
        if gone.keys() != self.gone.keys():
            self.past = reduce(add, (stats for stats, _ in gone.values()), Stats())
        self.counts = counts
        self.gone = gone

    @property
    def stats(self) -> Stats:
        """The sum over all replicas that there have been, and what waits in this process."""
        return super().stats + self.past

    @property
    def restarts(self) -> int:
        """Engines started after the first ones of their replicas."""
        return sum(restarts for _, restarts in (self.gone | self.counts).values())

    @property
    def is_ready(self) -> bool:
        """Whether a replica can paint, or would be started for a request."""
        return super().is_ready or (self.sleeps and bool(self.known) and not self.statuses)

    @property
    def digest(self) -> str:
        """Digest of the model that most slots have now, which new jobs go to;
        empty before a replica has answered.
        """
        return self.ready.digest if self.ready else ""

    @property
    def _waiting(self) -> Stats:
        jobs = self.sharded.values()
        return Stats(
            requests_waiting=sum(len(sharded.waiting) == sharded.job.total for sharded in jobs),
            images_waiting=sum(len(sharded.waiting) for sharded in jobs),
        )

    def _begin(self, job: Job) -> None:
        self.sharded[job.id] = sharded = ShardedJob(job, deque(job.request.indices))
        self.queue.add(sharded)
        self._dispatch()

    def _leave(self, job: Job) -> None:
        sharded = self.sharded.pop(job.id)
        self.queue.remove(sharded)
        for shard in sharded.shards:
            shard.cancel()
        self._dispatch()

    def _dispatch(self) -> None:
        """Dispatch shards while there is room, one at each turn."""
        limit = OVERCOMMIT * self.share
        while self.queue and self.outstanding < limit:
            sharded = self.queue.pop()
            missing = self._next_shard(sharded)
            self._count(sharded, sharded.slots_of(missing))
            shard = asyncio.create_task(self._run_shard(sharded, missing))
            sharded.shards.add(shard)
            shard.add_done_callback(partial(self._shard_ended, sharded, missing))
            if sharded.waiting:
                self.queue.add(sharded)

    def _next_shard(self, sharded: ShardedJob) -> set[int]:
        """Take the next images of a request that waits, at least one, as many
        as fill a shard, and whole codes.
        """
        size = self._shard_size(sharded.slots)
        missing: set[int] = set()
        taken = 0  # slots
        is_within_code = False
        while sharded.waiting and (taken < size or is_within_code):
            index = sharded.waiting.popleft()
            missing.add(index)
            taken += sharded.slots_of((index,))
            is_within_code = sharded.is_followed(index)
        return missing

    def _count(self, sharded: ShardedJob, images: int) -> None:
        """Count images that were dispatched, or came back where negative."""
        self.outstanding += images
        self.queue.count(sharded.client, images)

    def _shard_size(self, images: int) -> int:
        """Return the images in a shard of a job of so many: enough shards for all
        replicas, none too small or large.
        """
        replicas = max(1, len(self.statuses))
        slots = self.slots // replicas
        share = min(-(-images // replicas), slots // SHARDS_PER_REPLICA)
        return min(MAX_SHARD, max(MIN_SHARD, slots // MAX_SHARDS_PER_REPLICA, share))

    def _shard_ended(
        self, sharded: ShardedJob, missing: set[int], shard: asyncio.Task[None]
    ) -> None:
        """Count what came back. A callback, since a task that is cancelled before
        its first step runs no line of it.
        """
        self._count(sharded, -sharded.slots_of(missing))
        sharded.shards.discard(shard)
        if not shard.cancelled() and (error := shard.exception()):
            log.error("a shard failed unexpectedly; its request fails", exc_info=error)
            sharded.job.receive(Failed(sharded.job.id, BROKEN))
        self._dispatch()

    async def _run_shard(self, sharded: ShardedJob, missing: set[int]) -> None:
        """Send the missing images to one replica after the other until
        none is missing or the job is over.
        """
        job = sharded.job
        is_replaced = False
        losses = 0  # in a row, without an image finished in between
        while missing and not job.has_ended:
            before = len(missing)
            try:
                await self._attempt(sharded, missing)
            except (SilentReplicaError, *LOST) as error:
                # A cancelled job: Ray turns CancelledError into an error of
                # its own, which is not a lost replica.
                if job.id not in self.jobs:
                    return
                if isinstance(error, SilentReplicaError):
                    # No loss: where all replicas are slow, the request ends by its own timeout.
                    log.warning(
                        "a replica was silent for %g s; others paint %s images",
                        SILENCE_SECONDS,
                        len(missing),
                    )
                    continue
                is_replaced = isinstance(error, OtherModelError)
                # The last line is the cause; those before it are Ray's remote traceback.
                cause = str(error).strip().splitlines()[-1:] or [type(error).__name__]
                log.warning("a replica did not paint %s images: %s", len(missing), cause[0])
            # A replica that finished something was healthy, so only losses in a row count: a
            # request that kills every replica it meets is given up, one that meets bad luck
            # twice is not. The pause lets Serve notice the death and route elsewhere, and a
            # replica with the right model come back.
            losses = 0 if len(missing) < before else losses + 1
            if missing and losses == len(RETRY_PAUSES) and is_replaced:
                job.receive(Failed(job.id, REPLACED, "model_changed"))
            elif missing and losses == len(RETRY_PAUSES):
                job.receive(Failed(job.id, GIVEN_UP))
            elif missing and not job.has_ended:
                await asyncio.sleep(RETRY_PAUSES[losses])

    async def _attempt(self, sharded: ShardedJob, missing: set[int]) -> None:
        """Let one replica work on the missing images, until it is done
        or lost; remove the finished ones.
        """
        job = sharded.job
        digest = sharded.digest
        if digest is None:
            digest = self.digest + (self.ready.head_for(job.request) if self.ready else "")
        command = replace(job.request.shard(tuple(sorted(missing))), digest=digest)
        route = Route()
        # An empty context: Ray takes the request id from the context, and all calls of one HTTP
        # request would share it; the router then could not distinguish shards.
        call = Context().run(self.run_on_replica.remote, command, route=route)
        stream = cast("DeploymentResponseGenerator[list[Event]]", call)
        try:
            while (events := await _next(stream)) is not None:
                route.record_sign()
                if not events:  # a sign of life
                    continue
                # The first answer decides which model paints the job: another
                # shard may have been sent to another one.
                if sharded.digest is None:
                    sharded.digest = digest
                elif sharded.digest != digest:
                    raise OtherModelError(
                        f"its model is {digest}, the request's is {sharded.digest}"
                    )
                for event in events:
                    # A repeated shard may finish an image again; each counts once.
                    if isinstance(event, Finished | Scored) and event.index in missing:
                        missing.remove(event.index)
                        self._count(sharded, -sharded.slots_of((event.index,)))
                    job.receive(event)
                self._dispatch()
        finally:
            stream.cancel()  # on cancellation too: it frees the images' slots at once

    async def _poll(self) -> None:
        """Poll all replicas again and again, and report to them
        how many images are in flight here.
        """
        while not self.closing:  # a flag: Ray turns CancelledError into an error of its own
            try:
                answers = self.handle.broadcast("status", self.name, self.reserved_images)
                results = await answers.results_async(
                    timeout_s=POLL_TIMEOUT, return_exceptions=True
                )
                self._take([result for result in results if isinstance(result, EngineStatus)])
            # the previous answers stay; a replica that hangs is Serve's to replace
            except TimeoutError:
                log.warning("not all replicas answered a poll within %g seconds", POLL_TIMEOUT)
            except (*LOST, RuntimeError) as error:  # RuntimeError: Ray's handle is not set up yet
                self._take([])
                log.debug("no replica answers: %s", error)
                if self.sleeps and not self.known:
                    await self._wake()
            await asyncio.sleep(max(POLL_SECONDS, len(self.statuses) * POLL_SECONDS_PER_REPLICA))

    async def _wake(self) -> None:
        """Wait for a replica: Serve starts one for a call where there are none
        since nobody asks for the model.
        """
        with suppress(*LOST, RuntimeError):
            await self.handle.options(method_name="status").remote(self.name, self.reserved_images)

    def _take(self, statuses: list[EngineStatus]) -> None:
        """Take in the answers to a poll. Ingresses know of each other only
        by what the engines have in all.
        """
        in_all = sum(
            status.stats.images_running + status.stats.images_waiting for status in statuses
        )
        self.update(statuses, max(0, in_all - self.outstanding))
        if statuses:
            self.first_answer.set()
        self._dispatch()


async def _next(stream: "DeploymentResponseGenerator[list[Event]]") -> list[Event] | None:
    """Return what a replica sends next; None at the end, SilentReplicaError
    where nothing comes for too long.
    """
    try:
        async with asyncio.timeout(SILENCE_SECONDS) as silence:
            return await anext(stream)
    except StopAsyncIteration:
        return None
    except (TimeoutError, *LOST):  # Ray turns the timeout's CancelledError into an error of its own
        if silence.expired():
            raise SilentReplicaError from None
        raise
