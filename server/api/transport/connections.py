"""All connections of a process: their shared limits, and which are
aborted when too many bytes are unread.
"""

from typing import Protocol

from scanline.server.api.base.budgets import Budgets
from scanline.server.api.base.errors import ApiError
from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.transport.hangups import HangupWatch
from scanline.server.api.transport.parse_quota import ParseQuotas

MAX_LINGERING = 256  # refused connections at once that may linger; others are closed at once
# of a limit of unread bytes: what is freed when it is passed, so that this happens rarely
FREED_FRACTION = 0.1


class OpenConnection(Protocol):
    """What a connection is asked when too many bytes are unread; a `ClientTransport`."""

    owner: object  # its client, or the connection itself
    unread: int  # bytes, when they were last counted

    def update_unread(self) -> None: ...
    def refuse(self, error: ApiError) -> None: ...


class Connections:
    """The open connections, their budgets, and the counters of what was refused."""

    def __init__(self, budgets: Budgets, counters: HttpCounters, send_timeout: float) -> None:
        self.budgets = budgets
        self.counters = counters
        self.send_timeout = send_timeout
        self.open: set[OpenConnection] = set()
        self.lingering = 0  # how many of them are refused, and closed soon
        # A part of the limit, which may be that of the process's descriptors.
        self.max_lingering = min(MAX_LINGERING, max(8, budgets.connections.limit // 4))
        self.hangups = HangupWatch()
        self.quotas = ParseQuotas()

    def relieve_unread(self, client: str | None) -> None:
        """Abort connections if `client`, or all clients together,
        exceed their limits of unread bytes.

        The connection with the most unread bytes goes first: of that
        client, or of the client with the most.
        """
        for transport in self.open:
            transport.update_unread()
        budget = self.budgets.unread
        if client is not None and budget.by_client[client] > budget.client_limit(client):
            while budget.by_client[client] > budget.client_limit(client) * (1 - FREED_FRACTION):
                self._abort_largest(client)
        if budget.used > budget.limit:
            while budget.used > budget.limit * (1 - FREED_FRACTION):
                by_owner: dict[object, int] = {}
                for transport in self.open:
                    by_owner[transport.owner] = by_owner.get(transport.owner, 0) + transport.unread
                self._abort_largest(max(by_owner, key=by_owner.__getitem__))

    def _abort_largest(self, owner: object) -> None:
        owned = (connection for connection in self.open if connection.owner == owner)
        largest = max(owned, key=lambda connection: connection.unread)
        message = "Too many bytes wait to be read by their clients, and this connection holds the most of them."
        largest.refuse(ApiError("too_much_unread", message))
