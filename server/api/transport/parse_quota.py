"""Quotas of parsing: in one iteration of the event loop, what a client has sent is parsed for a
moment, or until a request of its is to be handled.

A client with many connections sends much at once: others wait for a part of it, not for
all. Knows no socket and no protocol.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

QUOTA_SECONDS = 0.0005  # of parsing


@dataclass
class ParseQuota:
    """What a client has had in this iteration of the event loop,
    and what waits for the next ones.
    """

    seconds: float = 0.0
    waiting: deque[Callable[[], None]] = field(default_factory=deque)


class ParseQuotas:
    """The clients that have had something parsed in this iteration of the
    event loop, or wait for the next one.
    """

    def __init__(self) -> None:
        self.of_clients: dict[str, ParseQuota] = {}

    def run(self, client: str | None, parse: Callable[[], None]) -> bool:
        """Call `parse` now, or in a later iteration where the client has used its quota; return
        whether it was called. A client of None has no quota."""
        if client is None:
            parse()
            return True
        if (quota := self.of_clients.get(client)) is None:
            quota = self.of_clients[client] = ParseQuota()
            asyncio.get_running_loop().call_soon(self._renew, client)
        quota.waiting.append(parse)
        if len(quota.waiting) > 1 or quota.seconds >= QUOTA_SECONDS:
            return False
        _run_first(quota)
        return True

    def exhaust(self, client: str | None) -> None:
        """Use up the client's quota: something of its is to be handled,
        which takes several times as long.
        """
        if client is not None and (quota := self.of_clients.get(client)) is not None:
            quota.seconds = QUOTA_SECONDS

    def _renew(self, client: str) -> None:
        """Give a client its next quota; forget a client that needs none."""
        quota = self.of_clients[client]
        if not quota.waiting:
            del self.of_clients[client]
            return
        asyncio.get_running_loop().call_soon(self._renew, client)
        quota.seconds = 0.0
        while quota.waiting and quota.seconds < QUOTA_SECONDS:
            _run_first(quota)


def _run_first(quota: ParseQuota) -> None:
    began = perf_counter()
    quota.waiting.popleft()()
    quota.seconds += perf_counter() - began
