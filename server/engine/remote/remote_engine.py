"""The handle of engines that other processes have. Its state is what their last statuses say.

Subclasses receive the statuses and send the jobs: `PipedEngine` for one engine of the main process,
`ReplicaPool` for those of a cluster's replicas.
"""

from functools import reduce
from operator import add
from time import monotonic

from scanline.model.sampling.base.messages import Stats
from scanline.server.engine.handle import EngineHandle
from scanline.server.engine.queue_limits import QueueLimits
from scanline.server.engine.remote.status import EngineStatus
from scanline.server.engine.worker.process import EngineOptions


class RemoteEngine(EngineHandle):
    """One model's jobs of this process, on engines that it shares
    with other processes of its kind.
    """

    def __init__(self, options: EngineOptions, limits: QueueLimits, sharers: int) -> None:
        """`sharers`: the processes that share the engines, this one included."""
        super().__init__(options, limits)
        self.sharers = sharers
        self.statuses: list[EngineStatus] = []  # the newest
        # the newest that were not empty: slots outlast a moment without engines
        self.known: list[EngineStatus] = []
        self.received = monotonic()
        self.others = 0  # images of the other processes, in slots or waiting, at the last status
        self._slots = 0  # of `known` together: each shard asks
        self._fewest_slots = 0  # of one of them

    def update(self, statuses: list[EngineStatus], others: int) -> None:
        """Take in newer statuses of all engines that answer."""
        self.statuses = statuses
        self.received = monotonic()
        if statuses:
            self.known = statuses
            self.others = others
            slots = [status.slots for status in statuses]
            self._slots = sum(slots)
            self._fewest_slots = min(slots)

    def start(self) -> None:
        """Do nothing: the processes that have the engines start them."""

    async def close(self) -> None:
        """Do nothing: the processes that have the engines stop them."""

    @property
    def share(self) -> float:
        """Slots that this process may fill: an equal part of them, or all that the others leave."""
        return max(self.slots / self.sharers, self.slots - self.others)

    @property
    def is_ready(self) -> bool:
        """Whether an engine could paint at the last status."""
        return any(status.is_ready for status in self.statuses) and not self.failed.is_set()

    @property
    def slots(self) -> int:
        """Images in flight at once on all engines together."""
        return self._slots

    @property
    def max_slots_per_image(self) -> int:
        """Slots that every engine has."""
        return self._fewest_slots

    @property
    def heartbeat_age(self) -> float:
        """Seconds since the last message of the engine that has been silent for the longest."""
        return (
            max((status.heartbeat_age for status in self.statuses), default=0.0)
            + monotonic()
            - self.received
        )

    @property
    def restarts(self) -> int:
        """Engines started after the first ones."""
        return sum(status.restarts for status in self.known)

    @property
    def load_seconds(self) -> float:
        """Load time of the engine that took longest to load its model."""
        return max((status.load_seconds for status in self.known), default=0.0)

    @property
    def stats(self) -> Stats:
        """The sum over all engines, and what waits in this process."""
        return reduce(add, (status.stats for status in self.statuses), self._waiting)

    @property
    def _waiting(self) -> Stats:
        return Stats()
