"""Delays of clients with much overhead: errors, pages, documents, empty websockets, which need no
model, and whatever takes much of the event loop's time.

Such requests take time from the engine, which paints for all clients on the same
processors. Clients are distinguished by address, before any key is looked at; trusted
proxies have no limit of their own.
"""

from dataclasses import dataclass

from starlette.types import Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from scanline.server.api.base.budgets import Budgets
from scanline.server.api.base.client import client_of
from scanline.server.api.base.loop_time import LoopTime, measured
from scanline.server.api.base.rate_limit import (
    FAILED_WORK_UNITS,
    METRICS_UNITS,
    WEBSOCKET_UNITS,
    OverheadLimit,
    units_of,
)
from scanline.server.api.middleware.observe import PROBES, RESPONSE_BODIES, RESPONSE_STARTS
from scanline.server.api.middleware.server_middleware import ServerMiddleware
from scanline.server.runtime.lifecycle import Lifecycle

WORK_PREFIX = "/v1/images/"
OVERHEAD = "scanline.overhead"  # where a scope keeps its ClientOverhead


@dataclass
class ClientOverhead:
    """The limit as one client's request or websocket sees it."""

    limit: OverheadLimit
    client: str | None
    lifecycle: Lifecycle
    has_worked: bool = False  # whether a job of the websocket was done

    def charge(self, units: float) -> None:
        self.limit.charge(self.client, units)

    async def wait(self, probe: float = 0.0) -> float:
        """Wait for the client's turn; not while the server drains. Return the seconds that were
        due. `probe`: of a health probe its cost in probes."""
        return await self.limit.wait(self.client, self.lifecycle.draining, probe)


@dataclass(eq=False)
class OverheadMiddleware(ServerMiddleware):
    """Handle a client's request or handshake once it is due, and
    count what ends without an image.
    """

    budgets: Budgets
    lifecycle: Lifecycle

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = self.budgets.client(client_of(scope).address)
        overhead = scope[OVERHEAD] = ClientOverhead(self.budgets.overhead, client, self.lifecycle)
        is_for_work = scope["path"].startswith(WORK_PREFIX)
        probe = 0.0
        if scope["type"] == "http" and scope["path"] in PROBES:
            probe = METRICS_UNITS if scope["path"] == "/metrics" else 1.0
        # A client over its rate waits here, before any of its body is read.
        if seconds := await overhead.wait(probe):
            bind_contextvars(delayed=round(seconds, 3))
        status = 0
        is_complete = False
        loop_time = LoopTime(overhead.charge)

        async def counted_receive() -> Message:
            message = await receive()
            loop_time.size += len(message.get("body", b""))
            return message

        async def counted_send(message: Message) -> None:
            nonlocal status, is_complete
            if message["type"] in RESPONSE_STARTS:
                status = message.get("status", 101)
            elif message["type"] in RESPONSE_BODIES:
                loop_time.size += len(message.get("body", b""))
            await send(message)
            is_complete = is_complete or (
                message["type"] in RESPONSE_BODIES and not message.get("more_body", False)
            )

        try:
            await measured(self.app(scope, counted_receive, counted_send), loop_time)
        finally:
            # Complete answers with images are free but for their time
            # here: the engine's is shared elsewhere.
            if scope["type"] == "websocket":
                overhead.charge(0.0 if overhead.has_worked else WEBSOCKET_UNITS)
            elif not (status == 200 and is_complete and is_for_work):
                more = (
                    FAILED_WORK_UNITS
                    if is_for_work
                    else METRICS_UNITS
                    if scope["path"] == "/metrics"
                    else 0.0
                )
                overhead.charge(units_of(loop_time.size) + more)
