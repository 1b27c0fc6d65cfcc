"""Round robin over clients, and over the requests of each. Knows neither images nor slots."""

from collections import OrderedDict
from collections.abc import Iterator


class RoundRobin:
    """Requests that wait, in the order of their turns.

    Every client has one turn in a round, however many requests it has, and gives it to the request
    of its own that has waited longest. So of two clients that both wait, neither has two turns more
    than the other. A client or request that joins has its turn after those that wait already.

    A turn may be worth several slots: the client then comes after all others that wait until each
    of them has had as many. Without such clients, every operation takes constant time.
    """

    def __init__(self) -> None:
        # the next one is first, in both
        self.clients: OrderedDict[str, OrderedDict[int, None]] = OrderedDict()
        self.client_of: dict[int, str] = {}
        self.slots_taken = 0  # in all turns so far
        # clients that come after the others until so many slots are given
        self.postponed: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.client_of)

    def __iter__(self) -> Iterator[int]:
        return iter(self.client_of)

    def __contains__(self, request: int) -> bool:
        return request in self.client_of

    def join(self, request: int, client: str) -> None:
        """Add a request behind the others of its client."""
        assert request not in self.client_of
        self.client_of[request] = client
        self.clients.setdefault(client, OrderedDict())[request] = None

    def leave(self, request: int) -> None:
        """Remove a request, if it is there."""
        if (client := self.client_of.pop(request, None)) is None:
            return
        requests = self.clients[client]
        del requests[request]
        if not requests:
            del self.clients[client]

    def next(self) -> int | None:
        """Return the request whose turn it is; None where none waits. It keeps its turn."""
        return next(self.in_order(), None)

    def in_order(self) -> Iterator[int]:
        """Yield each waiting client's next request, in the order of their
        turns. Change nothing before the last.
        """
        postponed = []
        for client, requests in self.clients.items():
            if self.postponed.get(client, 0) > self.slots_taken:
                postponed.append(client)
            else:
                yield next(iter(requests))
        yield from map(self.next_of, postponed)

    def next_of(self, client: str) -> int:
        """Return the request whose turn it is among those of a client that waits."""
        return next(iter(self.clients[client]))

    def end_turn(self, request: int, slots: int = 1) -> None:
        """Move a request to the end of its client's requests, and its client to the
        end of the clients. A turn of several slots keeps it there until the others
        that wait have had as many each."""
        client = self.client_of[request]
        self.slots_taken += slots
        if slots > 1:
            still = {
                name: until for name, until in self.postponed.items() if until > self.slots_taken
            }
            self.postponed = still | {client: self.slots_taken + slots * (len(self.clients) - 1)}
        self.clients[client].move_to_end(request)
        self.clients.move_to_end(client)
