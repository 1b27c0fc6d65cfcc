"""Time shares: each client has an equal part of the engine's time,
however many images it has in flight.

Images of one batch advance together, so a client with a thousand images would slow down everybody's
by the time that their steps take. Here the time that steps take is paid for by the clients whose
images were stepped, in proportion to their images, and the time of reads by those whose images were
read. A client steps while it has used no more than the mean of the clients with images in flight,
and an overdraft. At least one client always does; a client alone always does.

A client that comes, or returns, begins with what it had used before, but at most CREDIT overdrafts
behind the others: a client that had the engine alone has then used its overdraft, and waits while
the new one's images step. With many images, none of which would be done sooner for it, it begins
as many times less behind. What a client used beyond its share it still owes when it returns, less
its shares of the time meanwhile. The idea is that of fair queueing (Demers, Keshav and Shenker,
1989): `now` is their virtual time.
"""

from collections.abc import Mapping

ROUNDING = 1e-9  # seconds
# overdrafts: of two clients, the one that was alone is at its limit
# with 2; a tick of its may be running
CREDIT = 3
MAX_AWAY = 1000


class TimeShares:
    """Invariant: `used` has the clients with images in flight; `now` never
    falls, and is at least their mean.
    """

    def __init__(self, overdraft: float = ROUNDING) -> None:
        """`overdraft`: seconds by which a client may have used more than
        the mean before it steps no more.
        """
        self.overdraft = overdraft
        self.now = 0.0  # seconds that a client would have used that was always there
        self.used: dict[str, float] = {}  # seconds
        # the same of clients that have left, where they would begin with no less
        self.away: dict[str, float] = {}

    def next(self, images: Mapping[str, int]) -> set[str]:
        """Return the clients whose images step next; `images` counts those in
        flight of each client, at least one.
        """
        self._update(images)
        least = min(self.used.values(), default=0.0)
        most = max(self._mean, least) + self.overdraft
        steps = set()
        for client, used in self.used.items():
            if used <= most:
                steps.add(client)
        return steps

    def spent(self, seconds: float, stepped: Mapping[str, int]) -> None:
        """Share the time that steps of the images `stepped`, counted by client, have taken."""
        total = sum(stepped.values())
        for client, count in stepped.items():
            if client in self.used:  # or it has left since these steps were started
                self.used[client] += seconds * count / total
        part = seconds / (len(self.used) + 1)
        self.now = max(self.now + part, self._mean)

    def charge(self, seconds: Mapping[str, float]) -> None:
        """Share the time that reads have taken; a client without images in flight
        has used nothing and pays nothing.
        """
        for client, spent in seconds.items():
            if client in self.used:
                self.spent(spent, {client: 1})

    @property
    def _mean(self) -> float:
        return sum(self.used.values()) / max(1, len(self.used))

    def _update(self, images: Mapping[str, int]) -> None:
        """Begin with new clients, and remember of those that have left what they owe."""
        credit = CREDIT * self.overdraft
        least = self.now - credit
        for client in self.used.keys() - images.keys():
            self.away[client] = self.used.pop(client)
        for client, count in images.items():
            if client not in self.used:
                owed = self.away.pop(client, least)
                self.used[client] = max(owed, self.now - credit / count)
        # Who owes no more than the others begins as they do.
        for client, used in [*self.away.items()]:
            if used <= least:
                del self.away[client]
        while len(self.away) > MAX_AWAY:
            owes_least = min(self.away, key=self.away.__getitem__)
            del self.away[owes_least]
