"""uvicorn's websocket protocol, bounded in what a client can make the server buffer.

Relies on private parts of uvicorn, which tests/server/api/transport/test_private_parts.py lists.
"""

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

MAX_FRAGMENTS = 1024  # of one message: ws_max_size bounds its bytes, but empty fragments take memory too


class WebsocketProtocol(WebSocketsSansIOProtocol):
    """One websocket."""

    async def send(self, message: ASGISendEvent) -> None:
        """Send as uvicorn does, but raise no RuntimeError after a close, and allow a response instead of a websocket.

        A job may send once more after the websocket was closed: for it the client has disconnected.
        """
        try:
            await super().send(message)
        except RuntimeError:
            if message["type"] == "websocket.send" and self.close_sent:
                raise ClientDisconnected from None
            raise
        # uvicorn logs an error if the application returns before the handshake is complete. A refusal sent as an HTTP
        # response ends it, too.
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True

    def handle_ping(self) -> None:
        """Drop pings of a client that does not read, as RFC 6455 allows: their pongs would pile up in memory."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # takes the pong that the parser has already queued

    def handle_cont(self, event: Frame) -> None:
        """Close the websocket with code 1009 when a message has too many fragments."""
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(1009, f"a message has more than {MAX_FRAGMENTS} fragments")
            self.handle_parser_exception()
