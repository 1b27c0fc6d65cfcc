"""Keys: every route that is not listed here as open wants one, the websocket too; pure ASGI.

A request without a key is refused before anything of it is read, a websocket before it is accepted. Browsers
cannot send headers with a websocket: they offer the subprotocols `scanline` and `key.<base64url of the key>`.
"""

import binascii
import hmac
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Sequence

from pydantic import SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send

from scanline.server.api.errors import ApiError, refuse

OPEN = frozenset({"/healthz", "/readyz", "/"})
OPEN_BELOW = "/assets/"  # the page's files
IN_SUBPROTOCOL = "key."


class Keys:
    """401 for whoever shows none of `keys`."""

    def __init__(self, app: ASGIApp, keys: Sequence[SecretStr]) -> None:
        assert keys
        self.app, self.keys = app, [key.get_secret_value().encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _is_open(scope) or self._fit(shown := list(_shown(scope))):
            await self.app(scope, receive, send)
            return
        message = "This API key is not known here." if shown else "Send an API key, as Authorization: Bearer KEY."
        headers = {"www-authenticate": "Bearer"}
        await refuse(ApiError(401, message, code="invalid_api_key", headers=headers), scope, receive, send)

    def _fit(self, shown: list[bytes]) -> bool:
        """Whether a key that was shown is one of ours; as long in coming wherever they differ."""
        fits = False
        for one in shown:
            for key in self.keys:
                fits |= hmac.compare_digest(one, key)
        return fits


def _is_open(scope: Scope) -> bool:
    if scope["type"] == "http":
        return scope["path"] in OPEN or scope["path"].startswith(OPEN_BELOW)
    return bool(scope["type"] == "lifespan")


def _shown(scope: Scope) -> Iterator[bytes]:
    """The keys that a client shows."""
    for name, value in scope["headers"]:
        scheme, _, key = value.partition(b" ")
        if name == b"authorization" and scheme.lower() == b"bearer":
            yield key.strip()
    for protocol in scope.get("subprotocols", ()):  # of a websocket
        if protocol.startswith(IN_SUBPROTOCOL):
            coded = protocol.removeprefix(IN_SUBPROTOCOL)
            try:
                yield urlsafe_b64decode(coded + "=" * (-len(coded) % 4))
            except (binascii.Error, ValueError):  # ValueError: not ASCII
                yield b""  # shown, and nobody's
