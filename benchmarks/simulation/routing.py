"""Routers: each chooses a replica for a shard from the present replicas and the shard's ingress."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from random import Random

from benchmarks.simulation.replica import Ingress, Replica, Shard

Router = Callable[[Sequence[Replica], Shard, float], Replica]


def two(replicas: Sequence[Replica], draws: Random) -> tuple[Replica, Replica]:
    """Draw two different replicas, or the only one twice."""
    count = len(replicas)
    first = int(draws.random() * count)
    second = int(draws.random() * (count - 1))
    return replicas[first], replicas[second + (second >= first) if count > 1 else 0]


def at_random(draws: Random) -> Router:
    """A random replica."""
    return lambda replicas, shard, now: replicas[int(draws.random() * len(replicas))]


def two_by_shards(draws: Random) -> Router:
    """The one of two with fewer shards now: Serve's rule with counts that are never old."""
    return lambda replicas, shard, now: min(two(replicas, draws), key=lambda replica: len(replica.shards))


def two_by_images(draws: Random) -> Router:
    """The one of two with fewer images now."""
    return lambda replicas, shard, now: min(two(replicas, draws), key=attrgetter("images"))


def fewest_images(draws: Random) -> Router:
    """The replica with the fewest images now."""
    return lambda replicas, shard, now: min(replicas, key=attrgetter("images"))


class Serve:
    """Serve's rule with Serve's counts: each ingress has its own, which are fetched where they are too old, set by a
    replica's word when it takes a shard, less one when the ingress's own shard comes back (ray 2.60, router.py and
    pow_2_router.py). Asking takes no time here."""

    seconds = 10.0  # Serve's RAY_SERVE_QUEUE_LENGTH_CACHE_TIMEOUT_S, with its default

    def __init__(self, draws: Random) -> None:
        self.draws = draws
        self.known: dict[tuple[Ingress, Replica], tuple[int, float]] = {}

    def __call__(self, replicas: Sequence[Replica], shard: Shard, now: float) -> Replica:
        chosen = min(two(replicas, self.draws), key=lambda replica: self._count(shard.ingress, replica, now))
        self.known[shard.ingress, chosen] = len(chosen.shards) + 1, now
        return chosen

    def ended(self, replica: Replica, shard: Shard, now: float) -> None:
        """A shard has returned to its ingress."""
        count, _ = self.known.get((shard.ingress, replica), (1, now))
        self.known[shard.ingress, replica] = max(0, count - 1), now

    def _count(self, ingress: Ingress, replica: Replica, now: float) -> int:
        count, since = self.known.get((ingress, replica), (0, -self.seconds))
        if now - since >= self.seconds:
            count = len(replica.shards)
            self.known[ingress, replica] = count, now
        return count


ROUTERS: dict[str, Callable[[Random], Router]] = {
    "random": at_random,
    "two, by shards": two_by_shards,
    "Serve": Serve,
    "two, by images": two_by_images,
    "all, by images": fewest_images,
}
