"""Files that anybody may read: their bytes, plain and compressed, are made once, so that an answer
costs no more than its sending. Each has an entity tag. A Range is ignored, as RFC 9110 (14.2)
allows: the whole file is the answer.
"""

import gzip
from hashlib import sha256
from io import BytesIO

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from scanline.server.api.payload.accept import takes_gzip

PART_BYTES = 65_536  # sent at once; the next part when the client has read it


class KeptFile:
    """One file; `headers` are those of each of its answers."""

    def __init__(
        self, content: bytes, media_type: str, headers: dict[str, str], is_text: bool = True
    ) -> None:
        self.media_type = media_type
        self.headers = headers
        self.etag = f'"{sha256(content).hexdigest()[:32]}"'
        self.content = {"identity": content}
        if is_text:
            # Without the time, so that each process of a server sends the same bytes.
            self.content["gzip"] = gzip.compress(content, mtime=0)

    def response(self, request: Headers) -> Response:
        """Return the answer to a request with these headers."""
        coding = "gzip" if "gzip" in self.content and takes_gzip(request) else "identity"
        etag = self.etag if coding == "identity" else f'{self.etag[:-1]}-gzip"'
        headers = {**self.headers, "etag": etag}
        if len(self.content) > 1:
            headers["vary"] = "accept-encoding"
        # It is looked for in quotes, so that this finds it in any list, and with the W/ of a proxy.
        if etag in request.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if coding != "identity":
            headers["content-encoding"] = coding
        return _InParts(self.content[coding], headers=headers, media_type=self.media_type)


class _InParts(Response):
    """A response that is sent no faster than its client reads."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        parts = BytesIO(self.body)  # shares the bytes
        while part := parts.read(PART_BYTES):
            has_more = parts.tell() < len(self.body)
            await send({"type": "http.response.body", "body": part, "more_body": has_more})
