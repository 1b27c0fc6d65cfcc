"""Turns of clients: in one turn of the event loop, each has what it has sent parsed for a moment, or until a request of
its is to be handled.

A client with many connections sends much at once: others wait for a part of it, not for all. Knows no socket and no
protocol.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter

TURN_SECONDS = 0.0005  # of parsing


@dataclass
class ParsingTurn:
    """What a client has had in this turn of the event loop, and what waits for its next ones."""

    seconds: float = 0.0
    waiting: deque[Callable[[], None]] = field(default_factory=deque)


class ParsingTurns:
    """The clients that have had something parsed in this turn of the event loop, or wait for the next one."""

    def __init__(self) -> None:
        self.of_clients: dict[str, ParsingTurn] = {}

    def run(self, client: str | None, parse: Callable[[], None]) -> bool:
        """Call `parse` now, or in a later turn where the client has had this one; return whether it was called. A
        client of None has no turns."""
        if client is None:
            parse()
            return True
        if (turn := self.of_clients.get(client)) is None:
            turn = self.of_clients[client] = ParsingTurn()
            asyncio.get_running_loop().call_soon(self._next, client)
        turn.waiting.append(parse)
        if len(turn.waiting) > 1 or turn.seconds >= TURN_SECONDS:
            return False
        _run_first(turn)
        return True

    def end(self, client: str | None) -> None:
        """End the client's turn: something of its is to be handled now, which takes several times as long as a turn."""
        if client is not None and (turn := self.of_clients.get(client)) is not None:
            turn.seconds = TURN_SECONDS

    def _next(self, client: str) -> None:
        """Begin a client's next turn; forget a client that needs none."""
        turn = self.of_clients[client]
        if not turn.waiting:
            del self.of_clients[client]
            return
        asyncio.get_running_loop().call_soon(self._next, client)
        turn.seconds = 0.0
        while turn.waiting and turn.seconds < TURN_SECONDS:
            _run_first(turn)


def _run_first(turn: ParsingTurn) -> None:
    began = perf_counter()
    turn.waiting.popleft()()
    turn.seconds += perf_counter() - began
