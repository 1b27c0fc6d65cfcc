"""Requests that offer another protocol: invalid websocket
handshakes, and offers that are ignored.
"""

from collections.abc import Iterable

from websockets import exceptions
from websockets.http11 import MAX_LINE_LENGTH, MAX_NUM_HEADERS, Request
from websockets.server import ServerProtocol

from scanline.server.api.base.errors import ApiError

HOP_BY_HOP = frozenset({b"upgrade", b"http2-settings"})


def handshake_error(connection: ServerProtocol) -> ApiError | None:
    """Return why the head that `connection` has received opens no websocket; None if it does."""
    failure: Exception | None = connection.handshake_exc
    if failure is None and connection.events and isinstance(connection.events[0], Request):
        try:
            connection.process_request(connection.events[0])
            return None
        except exceptions.InvalidHandshake as error:
            failure = error
    match failure:
        case exceptions.RequestLineTooLong() | exceptions.HeaderLineTooLong():
            reason = f"a line is longer than {MAX_LINE_LENGTH} bytes"
        case exceptions.TooManyHeaders():
            reason = f"it has more than {MAX_NUM_HEADERS} headers"
        case exceptions.InvalidMethod():
            reason = "its method must be GET"
        case exceptions.InvalidUpgrade() | exceptions.InvalidHeader():
            reason = f"its header {failure.name} is missing or wrong"
        case _:
            reason = "it is malformed"
    return ApiError("invalid_websocket_handshake", f"The websocket handshake is invalid: {reason}.")


def head_without_upgrade(
    method: bytes, url: bytes, version: str, headers: Iterable[tuple[bytes, bytes]]
) -> bytes:
    """Return the head of the same request without its offer of another protocol;
    `headers` have lower-case names.
    """
    head = [method, b" ", url, b" HTTP/", version.encode(), b"\r\n"]
    for name, value in headers:
        if name == b"connection":
            value = b",".join(
                token for token in value.split(b",") if token.strip().lower() not in HOP_BY_HOP
            )
        if name not in HOP_BY_HOP and value:
            head += [name, b": ", value, b"\r\n"]
    return b"".join([*head, b"\r\n"])
