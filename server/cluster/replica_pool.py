"""A front's side of a model's replicas: gives them jobs in pieces, and pieces anew whose replica is lost.

Only so many images are handed out, by all fronts together, as replicas have slots for, and a little more, so that none
of them runs dry; the others wait here, and go to whichever replica has room next, a new one too. Jobs take turns, a
piece each.
"""

import asyncio
import logging
import secrets
from collections import deque
from contextlib import suppress
from contextvars import Context
from functools import partial, reduce
from operator import add
from time import monotonic
from typing import Any, cast

from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator

from scanline.model.config import ModelConfig
from scanline.model.sampling.messages import Event, Failed, Finished, Scored, Stats
from scanline.server.cluster.replica import ReplicaStatus
from scanline.server.engine.client.handle import EngineHandle, EngineUnavailableError
from scanline.server.engine.client.job import PendingJob
from scanline.server.engine.worker.process import EngineOptions

log = logging.getLogger("scanline.cluster")

AHEAD = 1.25  # images handed out, by slots
PIECES = 16  # into which a replica's slots are cut
SMALLEST, LARGEST = 16, 256  # images of a piece, where a job has as many
PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)  # seconds before a piece is given anew, by losses with no image done in between
SETTLING_SECONDS = 30.0
CENSUS_SECONDS = 2.0  # between two questions to all replicas, how they stand
EACH_SECONDS = 0.02  # and at least so many for each of them, where they are hundreds
TELLING_SECONDS = 10.0  # for all replicas to say how they stand
LOST = (RayError, RayServeException, EngineUnavailableError)
GIVEN_UP = "The replicas that worked on this request were lost, one after the other."
BROKEN = "The server failed while it gave this request to its replicas; its log says why."


class ReplicaPool(EngineHandle):
    """All replicas of one model, behind Serve's handle to them."""

    def __init__(
        self, handle: DeploymentHandle[Any], fronts: int, options: EngineOptions, max_waiting_images: int
    ) -> None:
        super().__init__(options, max_waiting_images)
        self.handle, self.fronts = handle, fronts
        self.work = handle.options(method_name="work", stream=True)
        self.name = secrets.token_hex(8)  # by which replicas know this front
        self.told: list[ReplicaStatus] = []  # by the replicas that answered last
        self.heard = monotonic()
        self.heard_any = asyncio.Event()
        self.closing = False
        self.room = 0  # slots of all replicas, when there were any last
        self.out = 0  # images of this front that are with replicas
        self.others = 0  # images of others that were, when replicas told last
        self.turns: deque[tuple[PendingJob, deque[int]]] = deque()  # jobs with images that are not, next at the left
        self.pieces: dict[int, set[asyncio.Task[None]]] = {}  # by job

    def start(self) -> None:
        """Begins to ask replicas how they stand."""
        self.census = asyncio.create_task(self._ask())

    async def settled(self) -> None:
        """Waits for replicas, not for long: a front that comes beside others must not refuse what they would not."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.heard_any.wait(), SETTLING_SECONDS)

    async def config(self) -> ModelConfig:
        """The model's, as soon as a replica has told it."""
        await self.heard_any.wait()
        return self.model

    async def close(self) -> None:
        """Stops asking; replicas are Serve's to end."""
        self.closing = True
        self.census.cancel()
        await asyncio.gather(self.census, return_exceptions=True)

    @property
    def is_ready(self) -> bool:
        """Whether a replica can paint now."""
        return any(one.is_up for one in self.told)

    @property
    def slots(self) -> int:
        """Of all replicas together, when there were any last."""
        return self.room

    @property
    def heartbeat_age(self) -> float:
        """Seconds since the engine was heard of that was not heard of for the longest."""
        return max((one.heartbeat_age for one in self.told), default=0.0) + monotonic() - self.heard

    @property
    def stats(self) -> Stats:
        """What all engines last told, with what waits here."""
        stats = reduce(add, (one.stats for one in self.told), Stats())
        waiting = Stats(
            requests_waiting=sum(len(images) == job.total for job, images in self.turns),
            images_waiting=sum(len(images) for _, images in self.turns),
        )
        return stats + waiting

    def _begin(self, job: PendingJob) -> None:
        self.pieces[job.id] = set()
        self.turns.append((job, deque(job.request.indices)))
        self._hand_out()

    def _leave(self, job: PendingJob) -> None:
        self.turns = deque(turn for turn in self.turns if turn[0] is not job)
        for piece in self.pieces.pop(job.id, ()):
            piece.cancel()
        self._hand_out()

    def _hand_out(self) -> None:
        """Gives out pieces while there is room, a piece of each job in turn."""
        most_out = AHEAD * max(self.room / self.fronts, self.room - self.others)
        while self.turns and self.out < most_out:
            job, images = self.turns.popleft()
            most = self._piece(job.total)
            missing = {images.popleft() for _ in range(min(most, len(images)))}
            self.out += len(missing)
            piece = asyncio.create_task(self._carry(job, missing))
            self.pieces[job.id].add(piece)
            piece.add_done_callback(partial(self._carried, job, missing))
            if images:
                self.turns.append((job, images))

    def _carried(self, job: PendingJob, missing: set[int], piece: asyncio.Task[None]) -> None:
        """A piece is done, failed, or was taken back, even before it began."""
        self.out -= len(missing)
        self.pieces.get(job.id, set()).discard(piece)
        if not piece.cancelled() and (error := piece.exception()):
            log.error("a piece could not be carried; its request fails", exc_info=error)
            job.receive(Failed(job.id, BROKEN))
        self._hand_out()

    def _piece(self, images: int) -> int:
        """Images of a piece of a job of so many: enough pieces for all replicas, but none too small or too large."""
        replicas = max(1, len(self.told))
        share = min(-(-images // replicas), self.room // replicas // PIECES)
        return min(LARGEST, max(SMALLEST, share))

    async def _carry(self, job: PendingJob, missing: set[int]) -> None:
        """Has one replica after the other work on the images that are missing until none is."""
        losses = 0
        while missing and not job.has_ended:
            before = len(missing)
            try:
                await self._try(job, missing)
            except LOST as error:
                if job.id not in self.jobs:  # Ray makes of a cancellation an error of its own
                    return
                cause = str(error).strip().splitlines()[-1:] or [type(error).__name__]
                log.warning("a replica was lost with %s images: %s", len(missing), cause[0])
            losses = 0 if len(missing) < before else losses + 1
            if missing and losses == len(PAUSES):
                job.receive(Failed(job.id, GIVEN_UP))
            elif missing and not job.has_ended:
                await asyncio.sleep(PAUSES[losses])

    async def _try(self, job: PendingJob, missing: set[int]) -> None:
        """Lets a replica work on what is missing, until it has done so or is lost."""
        command = job.request.shard(tuple(sorted(missing)))
        call = Context().run(self.work.remote, command)  # Ray gives all calls of one context one number
        events = cast("DeploymentResponseGenerator[list[Event]]", call)
        try:
            async for several in events:
                for event in several:
                    if isinstance(event, Finished | Scored) and event.index in missing:
                        missing.remove(event.index)
                        self.out -= 1
                    job.receive(event)
                self._hand_out()
        finally:
            events.cancel()

    async def _ask(self) -> None:
        """Asks all replicas how they stand, again and again, and tells them how many images are in flight here."""
        while not self.closing:  # Ray makes of a cancellation an error of its own
            try:
                answers = self.handle.broadcast("tell", self.name, self.reserved_images)
                told = await answers.results_async(timeout_s=TELLING_SECONDS, return_exceptions=True)
                self._hear([one for one in told if isinstance(one, ReplicaStatus)])
            except TimeoutError:  # what they told last stands; one that hangs is Serve's to replace
                log.warning("not all replicas told in %g seconds how they stand", TELLING_SECONDS)
            except (*LOST, RuntimeError) as error:  # RuntimeError: Ray's handle is not set up yet
                self._hear([])
                log.debug("no replica answers: %s", error)
            await asyncio.sleep(max(CENSUS_SECONDS, len(self.told) * EACH_SECONDS))

    def _hear(self, told: list[ReplicaStatus]) -> None:
        self.told, self.heard = told, monotonic()
        if told:
            self.ready, self.model = told[0].ready, told[0].config
            self.load_seconds = max(one.load_seconds for one in told)
            self.restarts = sum(one.restarts for one in told)
            self.room = sum(one.ready.slots for one in told)
            with_all = sum(one.stats.images_running + one.stats.images_waiting for one in told)
            self.others = max(0, with_all - self.out)
            self.heard_any.set()
        self._hand_out()
