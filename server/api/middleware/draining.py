"""Draining: new work is refused, and work that the drain timeout cut off is ended.

Probes, metrics and every other GET are answered until the end. The drain does not wait for the
pages' files: a client that reads one slowly, and needs no key for it, would delay every restart.
"""

from dataclasses import dataclass

from starlette.types import Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from scanline.server.api.base.errors import RETRY_SOON, ApiError, from_exception, refuse
from scanline.server.api.middleware.limits import discard_body
from scanline.server.api.middleware.server_middleware import ServerMiddleware
from scanline.server.api.payload.sse import sse_event
from scanline.server.runtime.lifecycle import DrainTimeoutError, Lifecycle

READ_ONLY_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
CONNECTION_CLOSE = (b"connection", b"close")


def shutting_down() -> ApiError:
    """Return the answer to a request that comes while the server drains."""
    return ApiError(
        "shutting_down",
        "The server is shutting down; retry in a moment.",
        headers=RETRY_SOON,
    )


@dataclass(eq=False)
class DrainingMiddleware(ServerMiddleware):
    """Register what passes with the lifecycle, which the drain waits for;
    answer 503 to new work once it drains.
    """

    lifecycle: Lifecycle

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            send = self._closing_when_draining(send)
        if scope.get("method") in READ_ONLY_METHODS:
            # Not tracked: no work is lost with it, and one whose client
            # does not read must not hold the drain.
            await self.app(scope, receive, send)
        elif self.lifecycle.draining.is_set():
            if scope["type"] == "http" and b"expect" not in dict(scope["headers"]):
                await discard_body(receive)  # the body limit lies around this middleware
            await refuse(shutting_down(), scope, receive, send)
        elif scope["type"] == "websocket":
            with self.lifecycle.tracked():  # each of its jobs is interruptible by itself
                await self.app(scope, receive, send)
        else:
            await self._run_interruptible(scope, receive, send)

    async def _run_interruptible(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message | None = None
        is_complete = False
        try:
            async with self.lifecycle.interruptible(is_arriving=True) as accept:

                async def noting_send(message: Message) -> None:
                    nonlocal start, is_complete
                    if message["type"] == "http.response.start":
                        start = message
                        accept()
                    else:
                        is_complete = not message.get("more_body", False)
                    await send(message)

                async def noting_receive() -> Message:
                    message = await receive()
                    if not message.get("more_body", False):
                        accept()
                    return message

                await self.app(scope, noting_receive, noting_send)
        except DrainTimeoutError as exception:
            error = from_exception(exception)
            if start is None:
                await refuse(error, scope, receive, send)
            # Only an event stream has a place for an error in its middle;
            # any other response is left incomplete.
            elif not is_complete and b"text/event-stream" in dict(start["headers"]).get(
                b"content-type", b""
            ):
                bind_contextvars(error=error.code)
                await send({"type": "http.response.body", "body": sse_event("error", error.body)})

    def _closing_when_draining(self, send: Send) -> Send:
        """Let responses of a draining server close their connection, so that the
        next request reaches another one.
        """

        async def closing_send(message: Message) -> None:
            if message["type"] == "http.response.start" and self.lifecycle.draining.is_set():
                message = {**message, "headers": [*message["headers"], CONNECTION_CLOSE]}
            await send(message)

        return closing_send
