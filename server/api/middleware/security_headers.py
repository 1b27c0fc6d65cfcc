"""Headers that limit what a browser may do with a response. A response that sets such a header itself keeps its own.

The page's policy is defined in `routes/page.py`. Every other response is data, which may do nothing, or FastAPI's own
documentation pages.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

DATA_POLICY = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
DOCS_POLICY = (  # an inline script, and what FastAPI's pages load from CDNs
    b"default-src 'none'; script-src https://cdn.jsdelivr.net 'unsafe-inline'; "
    b"style-src https://cdn.jsdelivr.net 'unsafe-inline'; img-src https://fastapi.tiangolo.com data:; "
    b"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
DOCS_PATHS = frozenset({"/docs", "/redoc"})
SECURITY_HEADERS = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"content-security-policy": DATA_POLICY,
}


class SecurityHeadersMiddleware:
    """Adds SECURITY_HEADERS to every HTTP response, with the policy that fits it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        defaults = SECURITY_HEADERS
        if scope["path"] in DOCS_PATHS:
            defaults = {**SECURITY_HEADERS, b"content-security-policy": DOCS_POLICY}

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                present = {name for name, _ in headers}
                headers += [pair for pair in defaults.items() if pair[0] not in present]
                message = {**message, "headers": headers}
            await send(message)

        await self.app(scope, receive, send_with_headers)
