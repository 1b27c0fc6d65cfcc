"""How much of a body that is too large is read, for its client to read the answer."""

import asyncio

import pytest

from scanline.server.api.middleware.exceptions import ExceptionMiddleware
from scanline.server.api.middleware.limits import BodyLimitMiddleware

LIMIT = 10
MOST = 4 * LIMIT


@pytest.mark.parametrize(
    ("declared", "sent", "read"), [(MOST, MOST, MOST), (MOST + 1, MOST + 1, 0), (0, 2 * MOST, MOST)]
)
def test_so_much_of_a_body_that_is_too_large_is_read(declared, sent, read):
    """Of one whose length is declared, if that is not more; else as much, byte by byte here."""
    received = 0
    statuses = []

    async def receive():
        nonlocal received
        received += 1
        return {"type": "http.request", "body": b"x", "more_body": received < sent}

    async def send(message):
        statuses.append(message.get("status"))

    async def app(scope, receive, send):
        while (await receive())["more_body"]:
            pass

    headers = [(b"content-length", b"%d" % declared)] if declared else []
    scope = {"type": "http", "path": "/", "method": "POST", "headers": headers}
    limited = ExceptionMiddleware(BodyLimitMiddleware(app, LIMIT, 60.0))
    asyncio.run(limited(scope, receive, send))
    assert (received, statuses[0]) == (read, 413)
