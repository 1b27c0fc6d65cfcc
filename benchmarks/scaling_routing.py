"""Which replica gets a piece. A router sees what it sees now: the replicas that it knows of, and who asks."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from random import Random

from scaling_replica import Front, Piece, Replica

Router = Callable[[Sequence[Replica], Piece, float], Replica]


def two(replicas: Sequence[Replica], draws: Random) -> tuple[Replica, Replica]:
    """Two different ones, where there are two."""
    count = len(replicas)
    first = int(draws.random() * count)
    second = int(draws.random() * (count - 1))
    return replicas[first], replicas[second + (second >= first) if count > 1 else 0]


def anyone(draws: Random) -> Router:
    """One at random."""
    return lambda replicas, piece, now: replicas[int(draws.random() * len(replicas))]


def two_by_pieces(draws: Random) -> Router:
    """The one of two with fewer pieces, seen as they are: Serve's rule, were its view always fresh."""
    return lambda replicas, piece, now: min(two(replicas, draws), key=lambda replica: len(replica.pieces))


def two_by_images(draws: Random) -> Router:
    """The one of two with fewer images."""
    return lambda replicas, piece, now: min(two(replicas, draws), key=attrgetter("images"))


def shortest(draws: Random) -> Router:
    """The one of all with the fewest images: the best that a router who sees everything can do with them."""
    return lambda replicas, piece, now: min(replicas, key=attrgetter("images"))


class Serve:
    """Serve's rule with Serve's view: each front's own counts of pieces, asked for where they are too old, set by a
    replica's word when it takes a piece, less one when the front's own piece comes back (ray 2.60, router.py and
    pow_2_router.py). Asking takes no time here."""

    def __init__(self, draws: Random, seconds: float = 10.0) -> None:
        """seconds: Serve's RAY_SERVE_QUEUE_LENGTH_CACHE_TIMEOUT_S, with its default."""
        self.draws, self.seconds = draws, seconds
        self.known: dict[tuple[Front, Replica], tuple[int, float]] = {}

    def __call__(self, replicas: Sequence[Replica], piece: Piece, now: float) -> Replica:
        chosen = min(two(replicas, self.draws), key=lambda replica: self._count(piece.front, replica, now))
        self.known[piece.front, chosen] = len(chosen.pieces) + 1, now
        return chosen

    def ended(self, replica: Replica, piece: Piece, now: float) -> None:
        """A piece has come back to the front that sent it."""
        count, _ = self.known.get((piece.front, replica), (1, now))
        self.known[piece.front, replica] = max(0, count - 1), now

    def _count(self, front: Front, replica: Replica, now: float) -> int:
        count, since = self.known.get((front, replica), (0, -self.seconds))
        if now - since >= self.seconds:
            count = len(replica.pieces)
            self.known[front, replica] = count, now
        return count


ROUTERS: dict[str, Callable[[Random], Router]] = {
    "random": anyone,
    "two, by pieces": two_by_pieces,
    "Serve": Serve,
    "Serve, counts of 0.1 s": partial(Serve, seconds=0.1),
    "two, by images": two_by_images,
    "all, by images": shortest,
}
