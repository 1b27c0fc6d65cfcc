"""Authentication: an API key is required on every route, the websocket
included, except OPEN_PATHS and the pages.

A request without a valid key is refused before its body is read, a websocket before it is accepted.
Browsers cannot send headers with a websocket: they offer the subprotocols `scanline` and
`key.<base64url of the key>`. Behind a proxy that has Authorization for itself the key is in
X-API-Key; behind one that has X-API-Key it is in Authorization. The name of the key becomes part of
the request's Client. A websocket ends with its key.
"""

import asyncio
import binascii
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from dataclasses import dataclass, replace

from starlette.types import Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from scanline.server.api.base.api_keys import ApiKeys
from scanline.server.api.base.client import CLIENT, CURRENT, client_of
from scanline.server.api.base.errors import RETRY_SOON, ApiError, refuse
from scanline.server.api.base.page_paths import is_page
from scanline.server.api.base.rate_limit import REFUSED_KEY_UNITS
from scanline.server.api.middleware.overhead import OVERHEAD
from scanline.server.api.middleware.server_middleware import ServerMiddleware
from scanline.server.api.middleware.wrong_keys import WrongKeyDelays

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
KEY_SUBPROTOCOL_PREFIX = "key."
KEY_HEADERS = (b"x-api-key", b"api-key")


@dataclass(eq=False)
class ApiKeyMiddleware(ServerMiddleware):
    """Answer 401 to a request that carries none of `keys`, later and later
    to an address that keeps trying.
    """

    keys: ApiKeys

    def __post_init__(self) -> None:
        self.delays = WrongKeyDelays()
        self.websockets: dict[asyncio.Timeout, bytes] = {}  # the keys of those that are open
        self.keys.on_reload.append(self._end_websockets)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        # One key in each place: several would be as many guesses at once. A
        # proxy may have a key of its own in one.
        places = [set(_header_keys(scope)), set(_authorization_keys(scope))]
        has_key = any(places)
        key = b""
        name = None
        for sent in places:
            if name is None and len(sent) == 1:
                (key,) = sent
                name = self.keys.name_of(key)
        if name is not None:
            scope[CLIENT] = client = replace(client_of(scope), key=name)
            CURRENT.set(client.id)
            bind_contextvars(key=name)
        if name is not None and scope["type"] == "websocket":
            await self._run_websocket(key, scope, receive, send)
        elif name is not None or _is_open(scope):
            await self.app(scope, receive, send)
        else:
            await refuse(await self._refusal(scope, has_key), scope, receive, send)

    async def _run_websocket(self, key: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a websocket, and its jobs, until it or its key ends."""
        until_revoked = asyncio.timeout(None)
        try:
            async with until_revoked:
                self.websockets[until_revoked] = key
                await self.app(scope, receive, send)
        except TimeoutError:
            if not until_revoked.expired():
                raise
            await send(
                {"type": "websocket.close", "code": 1008, "reason": "The API key was revoked."}
            )
        finally:
            del self.websockets[until_revoked]

    def _end_websockets(self) -> None:
        for until_revoked, key in self.websockets.items():
            if self.keys.name_of(key) is None:
                until_revoked.reschedule(0)

    async def _refusal(self, scope: Scope, has_key: bool) -> ApiError:
        """Return what to answer, after the delay of a wrong key."""
        if has_key and not await self.delays.wait(client_of(scope).id):
            message = "Too many wrong API keys are being sent; try again in a moment."
            headers = {**RETRY_SOON, "connection": "close"}
            scope[OVERHEAD].charge(REFUSED_KEY_UNITS)
            return ApiError("too_many_wrong_keys", message, headers=headers)
        message = (
            "Unknown API key."
            if has_key
            else "Missing API key; send it as Authorization: Bearer KEY or as X-API-Key."
        )
        return ApiError("invalid_api_key", message, headers={"www-authenticate": "Bearer"})


def _is_open(scope: Scope) -> bool:
    return bool(scope["type"] == "http" and (scope["path"] in OPEN_PATHS or is_page(scope["path"])))


def _header_keys(scope: Scope) -> Iterator[bytes]:
    """Yield the keys of KEY_HEADERS that are not empty."""
    for name, value in scope["headers"]:
        if name in KEY_HEADERS and value.strip():
            yield value.strip()


def _authorization_keys(scope: Scope) -> Iterator[bytes]:
    """Yield the keys of the authorization headers and, for a websocket, of the subprotocols."""
    for name, value in scope["headers"]:
        scheme, _, key = value.partition(b" ")
        if name == b"authorization" and scheme.lower() == b"bearer":
            yield key.strip()
    for protocol in scope.get("subprotocols", ()):
        if protocol.startswith(KEY_SUBPROTOCOL_PREFIX):
            encoded = protocol.removeprefix(KEY_SUBPROTOCOL_PREFIX)
            try:
                yield urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
            except (binascii.Error, ValueError):  # ValueError: not ASCII
                yield b""  # equals no key, but is not "missing" either
