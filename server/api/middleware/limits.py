"""Limits of one request's body (size and time) and of the number of open websockets."""

import asyncio
import math
from contextlib import suppress
from dataclasses import dataclass

from starlette.types import Message, Receive, Scope, Send

from scanline.server.api.base.budgets import SharedLimit
from scanline.server.api.base.client import client_of
from scanline.server.api.base.errors import RETRY_SOON, ApiError, refuse
from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.middleware.server_middleware import ServerMiddleware

NO_UPLOAD_PATHS = frozenset({"/v1/images/generations"})  # their bodies carry no pictures
NO_UPLOAD_MAX_BYTES = 1_000_000
DISCARD_FACTOR = 4  # of a body that is too large, at most this many times the limit is read


@dataclass(eq=False)
class BodyLimitMiddleware(ServerMiddleware):
    """Answer 413 to a body of more than `max_bytes`, 408 to one not received within `seconds`."""

    kinds = ("http",)

    max_bytes: int
    seconds: float

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        limit = (
            min(self.max_bytes, NO_UPLOAD_MAX_BYTES)
            if scope["path"] in NO_UPLOAD_PATHS
            else self.max_bytes
        )
        headers = dict(scope["headers"])
        deadline = asyncio.get_running_loop().time() + self.seconds

        # A declared length that is too large is refused before the route runs.
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > limit:
            if b"expect" not in headers and int(declared) <= limit * DISCARD_FACTOR:
                await _discard_until(receive, int(declared), deadline)
            await refuse(_too_large(limit), scope, receive, send)
            return

        # Any other body is counted as the route reads it.
        read = 0
        more = True

        async def limited_receive() -> Message:
            nonlocal read, more
            # the body is complete: the next message is the disconnect, which has no deadline
            if not more:
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise self._too_slow() from None
            more = message.get("more_body", False)
            read += len(message.get("body", b""))
            if read > limit:
                if more:
                    await _discard_until(receive, limit * DISCARD_FACTOR - read, deadline)
                raise _too_large(limit)
            return message

        await self.app(scope, limited_receive, send)

    def _too_slow(self) -> ApiError:
        message = f"The request was not received within {self.seconds:g} seconds."
        return ApiError("receive_timeout", message, headers={"connection": "close"})


@dataclass(eq=False)
class WebsocketLimitMiddleware(ServerMiddleware):
    """Answer 503 to a websocket beyond `max_open`, 429 to one beyond its
    client's share; before it is accepted.
    """

    kinds = ("websocket",)

    max_open: int
    counters: HttpCounters
    client_share: float = 1.0

    def __post_init__(self) -> None:
        self.open = SharedLimit(self.max_open, self.client_share)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = client_of(scope).id
        self.open.add(client, 1)
        error = self._refusal(client)
        if error is not None:
            self.open.add(client, -1)
            await refuse(error, scope, receive, send)
            return
        self.counters.open_websockets += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self.counters.open_websockets -= 1
            self.open.add(client, -1)

    def _refusal(self, client: str) -> ApiError | None:
        """Return why a client may not have the websockets that are counted now."""
        # A client's first one may be beyond the limit, while fewer clients than that have any.
        is_newcomer = (
            self.open.by_client[client] == 1 and len(self.open.by_client) <= self.open.limit
        )
        if is_newcomer or self.open.has_room(client):
            return None
        if self.open.used > self.open.limit:
            message = f"All {self.open.limit} websockets of this server are in use; try again in a moment."
            return ApiError("too_many_websockets", message, headers=RETRY_SOON)
        already = self.open.by_client[client] - 1
        message = (
            f"This client has {already} websockets open, its share of this server's; close one."
        )
        return ApiError("too_many_websockets_of_client", message, headers=RETRY_SOON)


async def discard_body(receive: Receive, max_bytes: float = math.inf) -> None:
    """Read the rest of a body, at most `max_bytes`: a client still sending when we
    close may never read the answer.
    """
    while max_bytes > 0 and (message := await receive()).get("more_body", False):
        max_bytes -= len(message["body"])


async def _discard_until(receive: Receive, max_bytes: int, deadline: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout_at(deadline):
            await discard_body(receive, max_bytes)


def _too_large(limit: int) -> ApiError:
    message = f"The body is larger than {limit} bytes."
    return ApiError("body_too_large", message, headers={"connection": "close"})
