"""The client's address: written to the scope, the log's context and the trace.

Behind a reverse proxy the connection's address is the proxy's. Only proxies that the
settings name are believed: the client is then the right-most address of X-Forwarded-For
that is not such a proxy, because everything left of it was written by the client itself.
The API key's name is added by `auth.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from scanline.server.api.base.client import CLIENT, CURRENT, Client, client_of
from scanline.server.api.base.trusted_proxies import UNIX, TrustedProxies
from scanline.server.api.middleware.server_middleware import ServerMiddleware

HEADER = b"x-forwarded-for"


@dataclass(eq=False)
class ClientMiddleware(ServerMiddleware):
    """Fill scope[CLIENT] for requests and websockets."""

    trusted_proxies: Iterable[str]

    def __post_init__(self) -> None:
        self.trusted = TrustedProxies(self.trusted_proxies)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == HEADER]
        address = self.trusted.client_address(client_of(scope).address, forwarded)
        scope[CLIENT] = client = Client(address)
        CURRENT.set(client.id)
        bind_contextvars(client=address or UNIX)
        await self.app(scope, receive, send)
