"""The base of our middleware: pure ASGI, one concern a class."""

from dataclasses import dataclass
from typing import ClassVar

from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass(eq=False)
class ServerMiddleware:
    """Handles requests and websockets, or only those of its `kinds`; whatever else comes, such as
    the start and the end of the application, is passed on."""

    kinds: ClassVar[tuple[str, ...]] = ("http", "websocket")

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handle = self.handle if scope["type"] in self.kinds else self.app
        await handle(scope, receive, send)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or have the application answer."""
        raise NotImplementedError
