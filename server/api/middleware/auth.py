"""API keys: every route needs one, the websocket included, but for OPEN_PATHS and the page's files.

A request without a valid key is refused before its body is read, a websocket before it is accepted. Browsers cannot
send headers with a websocket: they offer the subprotocols `scanline` and `key.<base64url of the key>`.
"""

import binascii
import hmac
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Sequence

from pydantic import SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send

from scanline.server.api.errors import ApiError, refuse

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/"})
OPEN_PREFIX = "/assets/"  # the page's files
KEY_SUBPROTOCOL_PREFIX = "key."


class ApiKeyMiddleware:
    """Answers 401 to a request that carries none of `keys`."""

    def __init__(self, app: ASGIApp, keys: Sequence[SecretStr]) -> None:
        assert keys
        self.app, self.keys = app, [key.get_secret_value().encode() for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _is_open(scope) or self._is_valid(sent := list(_sent_keys(scope))):
            await self.app(scope, receive, send)
            return
        message = "Unknown API key." if sent else "Missing API key; send it as Authorization: Bearer KEY."
        headers = {"www-authenticate": "Bearer"}
        await refuse(ApiError(401, message, code="invalid_api_key", headers=headers), scope, receive, send)

    def _is_valid(self, sent: list[bytes]) -> bool:
        """Return whether one of the keys `sent` is ours, compared in constant time."""
        valid = False
        for candidate in sent:
            for key in self.keys:
                valid |= hmac.compare_digest(candidate, key)
        return valid


def _is_open(scope: Scope) -> bool:
    if scope["type"] == "http":
        return scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_PREFIX)
    return bool(scope["type"] == "lifespan")


def _sent_keys(scope: Scope) -> Iterator[bytes]:
    """The keys of the authorization headers and, for a websocket, of the subprotocols."""
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
