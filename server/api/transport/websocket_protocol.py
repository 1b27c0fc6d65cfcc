"""uvicorn's websocket protocol, bounded in what a client can make the server
buffer and in how long it may take.

Relies on private parts of uvicorn and websockets.
"""

import json
from asyncio.events import TimerHandle
from collections.abc import Callable
from typing import Any

from uvicorn import Config
from uvicorn._types import ASGIReceiveEvent, ASGISendEvent
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from scanline.server.api.base.errors import ApiError
from scanline.server.api.base.rate_limit import CONNECTION_UNITS
from scanline.server.api.transport.client_transport import BUFFER, ClientTransport
from scanline.server.api.transport.connections import Connections
from scanline.server.api.transport.refusals import record_refusal, response_bytes
from scanline.server.api.transport.upgrades import handshake_error

# of one message: ws_max_size bounds its bytes, but empty fragments take memory too
MAX_FRAGMENTS = 1024
# behind a message that the application has not received; then reading pauses
MAX_BUFFERED_BYTES = 65_536
SLICE_BYTES = 1024  # given to the parser at once: at most 170 empty messages, 1.5 ms
FRAGMENT_BYTES = 1024  # of a message: smaller fragments are overhead, as are pings and pongs
FRAMES_PER_UNIT = 25  # of overhead
# close codes
POLICY_VIOLATION = 1008
TRY_AGAIN_LATER = 1013
PROTOCOL_ERRORS = {1007: "invalid_websocket_text", 1009: "message_too_large"}  # by the close code


class WebsocketProtocol(WebSocketsSansIOProtocol):
    """One websocket."""

    receive_timeout: float  # seconds from a message's first byte to its last
    max_message_bytes: Callable[[], int]
    all_connections: Connections
    transport: ClientTransport

    def __init__(self, config: Config, *args: Any, **kwargs: Any) -> None:
        config.ws_max_size = self.max_message_bytes()
        super().__init__(config, *args, **kwargs)
        self.buffered = b""  # received, and not given to the parser yet
        self.queued_bytes = 0  # of complete messages that the application has not received
        self.receive_timer: TimerHandle | None = None
        self.small_frames = 0.0  # pings, pongs and small fragments of the current slice
        self.free_at = 0.0  # when what follows is parsed, after many of those

    # The connection

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_receive_timer()
        self.buffered = b""
        self.transport.release()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """Disconnect the application at once: connection_lost comes only when
        everything written has been read.
        """
        if not self.disconnected:
            self.disconnected = True
            self.queue.put_nowait(
                {"type": "websocket.disconnect", "code": 1005 if self.handshake_complete else 1006}
            )
            # as in connection_lost: the application need not complete it
            self.handshake_complete = True
            self.writable.set()

    def shutdown(self) -> None:
        if self.disconnected:
            self.transport.abort()
        else:
            super().shutdown()
            self.transport.close_for_shutdown()

    # What is received: the handshake, then messages, as fast as the application receives them

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.handshake_initiated:
            self.buffered += data
            self._parse_more()
            return
        self.conn.receive_data(data)
        if (error := handshake_error(self.conn)) is None:
            self.handle_events()
        else:
            self.handshake_complete = self.close_sent = self.transport.is_receiving = True
            request_id = record_refusal(
                error, self.all_connections, self.transport.address, error.status
            )
            self.transport.write(response_bytes(error, request_id))
            self.transport.close()

    def _parse_buffered(self) -> None:
        """Give the parser what was received, in slices, until a message is complete."""
        data = memoryview(self.buffered)
        start = 0
        while (
            start < len(data)
            and self.handshake_complete
            and not self.read_paused
            and not self._has_to_wait
        ):
            if self.transport.is_closing():
                return
            had_events = self._parse_slice(data[start : start + SLICE_BYTES])
            start += SLICE_BYTES
            # others have their turn in between
            if self._pay_small_frames() or (had_events and start < len(data)):
                self.loop.call_at(self.free_at, self._parse_more)
                break
        self._keep(bytes(data[start:]))

    def _keep(self, data: bytes) -> None:
        self.buffered = data
        if len(self.buffered) > MAX_BUFFERED_BYTES or (self.buffered and not self.read_paused):
            self.transport.hold(BUFFER)
        else:
            self.transport.unhold(BUFFER)
        self._follow_arrival()

    @property
    def _has_to_wait(self) -> bool:
        return self.loop.time() < self.free_at

    def _pay_small_frames(self) -> bool:
        """Charge the client for the slice's small frames; return
        whether that delays what follows.
        """
        frames = self.small_frames
        self.small_frames = 0.0
        seconds = self.transport.pay_overhead(frames / FRAMES_PER_UNIT) if frames > 0 else 0.0
        if seconds > 0:
            self.free_at = self.loop.time() + seconds
        return seconds > 0

    def _parse_more(self) -> None:
        is_due = self.buffered and not self.transport.is_closing()
        if is_due and not self.transport.within_quota(self._parse_buffered):
            self._keep(self.buffered)

    def _parse_slice(self, data: memoryview) -> bool:
        """Return whether a frame was complete."""
        self.conn.receive_data(data)  # type: ignore[arg-type]
        had_events = bool(self.conn.events)
        if self.conn.parser_exc is not None:
            self.handle_parser_exception()
            return had_events
        self.handle_events()
        if had_events and not self.frames:
            self._stop_receive_timer()
        return had_events

    def _follow_arrival(self) -> None:
        """Count the bytes of unfinished and waiting messages;
        limit the time of an unfinished one.
        """
        if self.transport.is_closing():
            return
        unfinished = len(self.conn.reader.buffer) + (self.conn.current_size or 0)
        self.transport.count_arriving(unfinished + self.queued_bytes + len(self.buffered))
        if self.receive_timer is None and (unfinished or self.frames):
            self.receive_timer = self.loop.call_later(
                self.receive_timeout, self._on_receive_timeout
            )

    def _stop_receive_timer(self) -> None:
        if self.receive_timer is not None:
            self.receive_timer.cancel()
            self.receive_timer = None

    def _on_receive_timeout(self) -> None:
        self.receive_timer = None
        if self.read_paused or self.buffered:  # the client could not send
            self._follow_arrival()
        else:
            message = f"A message was not received within {self.receive_timeout:g} seconds."
            self._refuse(ApiError("receive_timeout", message), POLICY_VIOLATION)

    def send_receive_event_to_app(self) -> None:
        """Queue a message; one that is not UTF-8 closes the websocket, for
        which uvicorn would log a traceback.
        """
        data = b"".join(self.frames)
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                data.decode()
            except UnicodeDecodeError:
                self.conn.fail(1007, "a message is not valid UTF-8")
                self.handle_parser_exception()
                return
        self.frames = [data]
        self.queued_bytes += 0 if self.close_sent else len(data)
        self.transport.exhaust_quota()
        super().send_receive_event_to_app()

    async def receive(self) -> ASGIReceiveEvent:
        message = await super().receive()
        if self.queue.empty():
            self.queued_bytes = 0
            if not self.disconnected:
                self._parse_buffered()
        return message

    # What is sent

    async def send(self, message: ASGISendEvent) -> None:
        """Send as uvicorn does, but raise no RuntimeError after a close, and
        allow a response instead of a websocket.

        A job may send once more after the websocket was closed: for it the client has
        disconnected. Only sending says so: of a client that leaves during the handshake, the
        application learns when it receives.
        """
        try:
            await super().send(message)
        except ClientDisconnected:
            if message["type"] == "websocket.send":
                raise
            return
        except RuntimeError:
            if message["type"] == "websocket.send" and self.close_sent:
                raise ClientDisconnected from None
            raise
        if message["type"] == "websocket.accept":
            self._parse_buffered()  # what a client sent too early
        # uvicorn logs an error if the application returns before the handshake is complete. A
        # refusal sent as an HTTP response ends it, too.
        if message["type"] == "websocket.http.response.body" and self.close_sent:
            self.handshake_complete = True

    def handle_pong(self, event: Frame) -> None:
        self.small_frames += 1
        super().handle_pong(event)

    def handle_ping(self) -> None:
        """Drop pings of a client that does not read, as RFC 6455 allows:
        their pongs would pile up in memory.
        """
        self.small_frames += 1
        if self.writable.is_set():
            super().handle_ping()
        else:
            self.conn.data_to_send()  # takes the pong that the parser has already queued

    # Refusals

    def handle_cont(self, event: Frame) -> None:
        """Close the websocket with code 1009 when a message has too many fragments."""
        self.small_frames += max(0.0, 1 - len(event.data) / FRAGMENT_BYTES)
        if len(self.frames) < MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(1009, f"a message has more than {MAX_FRAGMENTS} fragments")
            self.handle_parser_exception()

    def handle_parser_exception(self) -> None:
        """Count what the client has sent wrong, and close the websocket so that it can read why."""
        assert self.conn.close_sent is not None
        code = PROTOCOL_ERRORS.get(self.conn.close_sent.code, "invalid_websocket_frame")
        self.all_connections.counters.errors[code] += 1
        self.all_connections.budgets.overhead.charge(self.transport.client, CONNECTION_UNITS)
        self._close_failed()

    def refuse_arriving(self) -> bool:
        """Close the websocket, because there is no room for the message that is arriving."""
        message = "Too many bytes of messages are arriving, of this client or of all; try again in a moment."
        self._refuse(ApiError("too_much_arriving", message), TRY_AGAIN_LATER)
        return True

    def _refuse(self, error: ApiError, close_code: int) -> None:
        """Send the error as a message, and close the websocket."""
        record_refusal(error, self.all_connections, self.transport.address, error.status)
        if self.handshake_complete and not self.close_sent:
            self.conn.send_text(json.dumps({"type": "error", **error.body}).encode())
            self.conn.fail(close_code, error.message)
            self._close_failed()
        else:
            self.transport.abort()

    def _close_failed(self) -> None:
        self._stop_receive_timer()
        self.buffered = b""
        self.transport.is_receiving = True  # so that closing does not reset the connection
        super().handle_parser_exception()
