"""Headers that limit what a browser may do with a response. A response that sets
such a header itself keeps its own.

The policies of the page and of the API documentation are defined in `routes/page.py`. Every other
response is data, which may do nothing.
"""

from starlette.types import Message, Receive, Scope, Send

from scanline.server.api.middleware.server_middleware import ServerMiddleware

POLICY = b"content-security-policy"
EMBEDDED = b"x-frame-options"
DATA_POLICY = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
SECURITY_HEADERS = {
    b"x-content-type-options": b"nosniff",
    EMBEDDED: b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    POLICY: DATA_POLICY,
}


class SecurityHeadersMiddleware(ServerMiddleware):
    """Add SECURITY_HEADERS to every HTTP response."""

    kinds = ("http",)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                present = dict(headers)
                if b"frame-ancestors 'none'" not in present.get(POLICY, DATA_POLICY):
                    present[EMBEDDED] = b""  # it has no value for some pages
                headers += [pair for pair in SECURITY_HEADERS.items() if pair[0] not in present]
                message = {**message, "headers": headers}
            await send(message)

        await self.app(scope, receive, send_with_headers)
