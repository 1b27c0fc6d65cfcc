"""Headers that tell browsers what an answer may do; pure ASGI. An answer that has such a header of its own keeps it.

The page's policy stands beside the page; all else is data, which may do nothing, or FastAPI's own description.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

DATA = b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
DOCS = (  # a script of its own in the page, the rest from where FastAPI has it
    b"default-src 'none'; script-src https://cdn.jsdelivr.net 'unsafe-inline'; "
    b"style-src https://cdn.jsdelivr.net 'unsafe-inline'; img-src https://fastapi.tiangolo.com data:; "
    b"connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
DOCUMENTS = frozenset({"/docs", "/redoc"})
COMMON = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"content-security-policy": DATA,
}


class SecurityHeaders:
    """nosniff, no frames, no referrer, and a policy by what the answer is."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        wanted = {**COMMON, b"content-security-policy": DOCS} if scope["path"] in DOCUMENTS else COMMON

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                own = {name for name, _ in headers}
                message = {**message, "headers": headers + [pair for pair in wanted.items() if pair[0] not in own]}
            await send(message)

        await self.app(scope, receive, secured)
