"""Our hold on uvicorn's websockets: what a client can make the server keep without ever being asked for it."""

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

MOST_FRAGMENTS = 1024  # of one message; max_size bounds its bytes, and pieces without any cost memory too


class WebsocketProtocol(WebSocketsSansIOProtocol):
    """One websocket."""

    async def send(self, message: ASGISendEvent) -> None:
        """As uvicorn's, but an answer instead of a websocket is no fault, nor is sending what came after the close."""
        try:
            await super().send(message)
        except RuntimeError:
            if message["type"] == "websocket.send" and self.close_sent:
                raise ClientDisconnected from None
            raise
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True

    def handle_ping(self) -> None:
        """Pings of a client that does not read go unanswered, as the standard allows: answers would pile up."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < MOST_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(1009, f"a message in more than {MOST_FRAGMENTS} pieces")
            self.handle_parser_exception()
