"""A limit of what a websocket's client sends before it is handled.

Serve's proxy reads a websocket as fast as its client sends and passes every message on, so nothing
holds back a client whose messages come faster than the API handles them: they would pile up in the
ingress. This middleware takes them in as they come, counts their bytes until the API takes them,
and closes a websocket that exceeds the limit. A stand-alone server needs none of this, because
there a message that is not taken is not read from its socket.
"""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass

from starlette.types import Message, Receive, Scope, Send

from scanline.server.api.base.errors import ApiError
from scanline.server.api.middleware.observe import HttpCounters
from scanline.server.api.middleware.server_middleware import ServerMiddleware

CODE = "too_many_messages"
EMPTY_MESSAGE_BYTES = 100  # that a message takes besides its text: empty ones count too


@dataclass(eq=False)
class WebsocketArrivalLimit(ServerMiddleware):
    """Invariant: `waiting` is the sum over all open websockets."""

    kinds = ("websocket",)

    counters: HttpCounters
    max_bytes: int
    max_bytes_of_all: int
    waiting: int = 0  # bytes

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrivals = _Arrivals(self, receive, send)
        reader = asyncio.create_task(arrivals.read())
        try:
            await self.app(scope, arrivals.receive, arrivals.send)
        finally:
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader
            arrivals.count(-arrivals.waiting)


class _Arrivals:
    """The messages of one websocket that the API has not taken."""

    def __init__(self, limit: WebsocketArrivalLimit, receive: Receive, send: Send) -> None:
        self.limit = limit
        self.receive_next = receive
        self.send_on = send
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.waiting = 0  # bytes
        self.is_closed = False

    async def read(self) -> None:
        """Take in messages until the client disconnects or sends too much."""
        while True:
            message = await self.receive_next()
            if message["type"] == "websocket.receive":
                self.count(_size(message))
                if (
                    self.waiting > self.limit.max_bytes
                    or self.limit.waiting > self.limit.max_bytes_of_all
                ):
                    await self._close()
                    message = {"type": "websocket.disconnect", "code": 1008}
            self.messages.put_nowait(message)
            if message["type"] == "websocket.disconnect":
                return

    async def receive(self) -> Message:
        """Return the next message, which the API has taken then."""
        message = await self.messages.get()
        if message["type"] == "websocket.receive":
            self.count(-_size(message))
        return message

    async def send(self, message: Message) -> None:
        """Send on; OSError, as from a client that has disconnected,
        where the websocket was closed here.
        """
        if self.is_closed:
            raise OSError("the websocket was closed")
        await self.send_on(message)

    def count(self, size: int) -> None:
        self.waiting += size
        self.limit.waiting += size

    async def _close(self) -> None:
        """Close the websocket with the reason, and forget what it has sent."""
        self.is_closed = True
        while not self.messages.empty():
            self.messages.get_nowait()
        self.count(-self.waiting)
        error = ApiError(CODE, "Messages arrive faster than they can be handled; closing.")
        self.limit.counters.errors[CODE] += 1
        # the client has disconnected, or its handshake is not complete
        with suppress(OSError, RuntimeError):
            await self.send_on(
                {"type": "websocket.send", "text": json.dumps({"type": "error", **error.body})}
            )
            await self.send_on(
                {"type": "websocket.close", "code": 1008, "reason": "too many messages"}
            )


def _size(message: Message) -> int:
    """Return about the bytes that a message takes; text is counted by
    characters, each at least one byte.
    """
    return EMPTY_MESSAGE_BYTES + len(message.get("bytes") or message.get("text") or "")
