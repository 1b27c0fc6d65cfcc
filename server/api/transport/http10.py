"""Answers to HTTP/1.0, which some proxies and benchmarks speak: without chunks,
and kept alive only where asked.
"""

from starlette.types import Message, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


def send_to_http10(cycle: RequestResponseCycle, send: Send, keeps_alive: bool) -> Send:
    """Return a `send` that keeps uvicorn from chunks: an answer without a length ends
    with its connection (RFC 9112, 6.3). keeps_alive: whether the client asked for that;
    it is possible only with a length."""
    has_length = False

    async def send_whole(message: Message) -> None:
        nonlocal has_length
        if message["type"] == "http.response.start":
            headers = message.get("headers", [])
            has_length = any(name.lower() == b"content-length" for name, _ in headers)
            if not has_length:
                cycle.chunked_encoding = False
            elif keeps_alive:
                cycle.keep_alive = True
                message = {**message, "headers": [*headers, (b"connection", b"keep-alive")]}
        elif not has_length:
            cycle.expected_content_length = len(message.get("body", b""))
        await send(message)

    return send_whole
