"""Refusals below HTTP, where no middleware sees them: their answer, log line and count.

A log line and a count are the same as the middleware's; the method and the path
are `other`, as they are not known.
"""

import json
import logging

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from scanline.server.api.base.errors import ApiError
from scanline.server.api.base.rate_limit import CONNECTION_UNITS
from scanline.server.api.middleware.request_id import HEADER, new_request_id
from scanline.server.api.middleware.security_headers import SECURITY_HEADERS
from scanline.server.api.transport.connections import Connections

log = logging.getLogger("scanline.requests")


def record_refusal(
    error: ApiError, connections: Connections, address: str, status: int = 0
) -> bytes:
    """Log and count an error, and return its request id; `status` is
    0 where no response can be sent.
    """
    connections.counters.errors[error.code] += 1
    connections.budgets.overhead.charge(connections.budgets.client(address), CONNECTION_UNITS)
    request_id = new_request_id()
    fields = {
        "method": "other",
        "path": "other",
        "status": status,
        "error": error.code,
        "client": address,
    }
    log.info("request", extra={**fields, "request_id": request_id.decode(), "ended": "refused"})
    return request_id


def response_bytes(error: ApiError, request_id: bytes) -> bytes:
    """Return the whole response to a request, after which the connection is closed."""
    body = json.dumps(error.body, separators=(",", ":")).encode()
    headers = {
        b"content-type": b"application/json",
        b"content-length": str(len(body)).encode(),
        b"connection": b"close",
        HEADER: request_id,
        **SECURITY_HEADERS,
        **{name.encode(): value.encode() for name, value in (error.headers or {}).items()},
    }
    lines = [b"%s: %s\r\n" % pair for pair in headers.items()]
    return b"".join([STATUS_LINE[error.status], *lines, b"\r\n", body])


def head_too_long(limit: int, in_address: bool) -> ApiError:
    """Return the error of a head of more than `limit` bytes, by where the limit was reached."""
    if in_address:
        return ApiError("address_too_long", f"The URL is longer than {limit} bytes.")
    return ApiError("headers_too_long", f"The headers are longer than {limit} bytes.")
