"""Which replica gets a piece. A router sees what it sees now: the replicas that it knows of, and who asks."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from random import Random

from scaling_replica import Piece, Replica

CACHE_SECONDS = 10.0  # Serve's RAY_SERVE_QUEUE_LENGTH_CACHE_TIMEOUT_S
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
    """Serve's rule with Serve's view: each front's own counts of pieces, asked for where they are older than 10 s, set
    by a replica's word when it takes a piece, less one when the front's own piece comes back (ray 2.60)."""

    def __init__(self, draws: Random) -> None:
        self.draws = draws
        self.known: dict[tuple[int, Replica], tuple[int, float]] = {}

    def __call__(self, replicas: Sequence[Replica], piece: Piece, now: float) -> Replica:
        chosen = min(two(replicas, self.draws), key=lambda replica: self._count(piece.front, replica, now))
        self.known[piece.front, chosen] = len(chosen.pieces) + 1, now
        return chosen

    def ended(self, replica: Replica, piece: Piece, now: float) -> None:
        """A piece has come back to the front that sent it."""
        count, _ = self.known.get((piece.front, replica), (1, now))
        self.known[piece.front, replica] = max(0, count - 1), now

    def _count(self, front: int, replica: Replica, now: float) -> int:
        count, since = self.known.get((front, replica), (0, -CACHE_SECONDS))
        if now - since >= CACHE_SECONDS:
            count = len(replica.pieces)
            self.known[front, replica] = count, now
        return count


ROUTERS: dict[str, Callable[[Random], Router]] = {
    "random": anyone,
    "two, by pieces": two_by_pieces,
    "Serve: two, by pieces as each front knows them": Serve,
    "two, by images": two_by_images,
    "all, by images": shortest,
}
