"""A connection's transport, which counts what its client makes the process
hold, and ends what makes no progress.

HTTP and websockets write, pause and close through it; it lives as
long as the connection. Knows no HTTP.
"""

import asyncio
from asyncio.events import TimerHandle
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any, Protocol

from uvicorn.protocols.utils import get_remote_addr

from scanline.server.api.base.errors import ApiError
from scanline.server.api.base.rate_limit import CONNECTION_SECONDS
from scanline.server.api.transport.connections import Connections
from scanline.server.api.transport.refusals import record_refusal

# after a refusal, for a client to stop sending and read it: closing at once would reset both
LINGER_SECONDS = 2.0
SHUTDOWN_SECONDS = 2.0  # for clients to read what was written; running.CLOSING_SECONDS is longer
ROOM_SECONDS = 2.0  # to wait for room for arriving bytes before they are refused
ROOM_POLL_SECONDS = 0.25
EXCESS = 1.25  # times the limit of arriving bytes: beyond it nothing waits for room
PROGRESS_CHECKS = 4  # in send_timeout
# why reading is paused
APPLICATION = "application"
BUFFER = "buffer"
ROOM = "room"
OVERHEAD = "overhead"


class ClientProtocol(Protocol):
    """What a protocol does when its transport asks."""

    def eof_received(self) -> None:
        """Cancel what runs for the client, which has closed its side of the connection."""

    def refuse_arriving(self) -> bool:
        """Refuse what is arriving, for which there is no room; return
        False if nothing can be refused now.
        """


class ClientTransport(asyncio.Transport):
    """One connection; `is_receiving` says whether closing it would cut off
    something that its client is sending.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        connections: Connections,
    ) -> None:
        super().__init__()
        self.inner = transport
        self.loop = loop
        self.connections = connections
        self.address = (get_remote_addr(transport) or ("", 0))[0]
        # None: only the limits of the process apply
        self.client = connections.budgets.client(self.address)
        self.owner: object = self.client or self
        self.is_receiving = False
        self.is_lingering = False
        self.is_released = False
        self.has_hung_up = False
        self.pauses: set[str] = set()
        self.timer: TimerHandle | None = None  # of lingering or of the shutdown
        # bytes in arrival
        self.arriving = 0
        self.room_timer: TimerHandle | None = None
        self.room_deadline = 0.0
        # unread bytes
        self.written = 0
        self.unread = 0
        self.taken = 0  # bytes that the client's side has taken, at the last progress
        self.progress_time = 0.0
        self.send_timer: TimerHandle | None = None
        connections.open.add(self)
        connections.budgets.connections.add(self.client, 1)
        socket = transport.get_extra_info("socket")
        self.descriptor = -1 if socket is None else socket.fileno()
        connections.hangups.add(loop, self.descriptor, self._on_hangup)

    def release(self) -> None:
        """Give back all that the connection holds; protocols call this when it is lost."""
        if self.is_released:
            return
        self.is_released = True
        self.connections.open.discard(self)
        self.connections.budgets.connections.add(self.client, -1)
        self.connections.hangups.remove(self.loop, self.descriptor)
        self.connections.lingering -= self.is_lingering
        self._count_unread(0)
        self.connections.budgets.arriving.add(self.client, -self.arriving)
        self.arriving = 0
        for timer in (self.timer, self.room_timer, self.send_timer):
            if timer is not None:
                timer.cancel()

    def refuse(self, error: ApiError) -> None:
        """Log and count the error, and abort the connection: it cannot be answered."""
        if not self.is_released:
            record_refusal(error, self.connections, self.address)
            self._count_unread(0)
            self.inner.abort()

    # Reading: paused for as long as there is a reason

    def pause_reading(self) -> None:
        self.hold(APPLICATION)

    def resume_reading(self) -> None:
        self.unhold(APPLICATION)

    def hold(self, reason: str) -> None:
        if not self.pauses and not self.is_closing():
            self.inner.pause_reading()
            if self.has_hung_up:
                self.loop.call_soon(self._on_hangup)
        self.pauses.add(reason)

    def unhold(self, reason: str) -> None:
        if reason in self.pauses:
            self.pauses.remove(reason)
            if not self.pauses and not self.is_closing():
                self.inner.resume_reading()

    def hold_for_overhead(self, most: float = CONNECTION_SECONDS) -> float:
        """Read nothing for a while if the client has caused too much
        overhead; return for how many seconds.
        """
        seconds = min(most, self.connections.budgets.overhead.delay(self.client))
        if seconds > 0:
            self.hold(OVERHEAD)
            self.loop.call_later(seconds, self.unhold, OVERHEAD)
        return seconds

    def pay_overhead(self, units: float) -> float:
        """Charge the client for what it has just sent, and read nothing for as long as that is too
        much; return for how many seconds."""
        self.connections.budgets.overhead.charge(self.client, units)
        return self.hold_for_overhead(inf)

    def within_quota(self, parse: Callable[[], None]) -> bool:
        """Call `parse` when the client's quota allows it; return whether that was now."""
        return self.connections.quotas.run(self.client, parse)

    def exhaust_quota(self) -> None:
        """Parse no more of what the client has sent in this iteration of the
        event loop: its request is handled.
        """
        self.connections.quotas.exhaust(self.client)

    def _on_hangup(self) -> None:
        """End the connection if its end cannot be read, because reading is paused."""
        self.has_hung_up = True
        if self.pauses and not self.is_released and not self.inner.is_closing():
            self._protocol().eof_received()
            self.inner.close()

    # Bytes in arrival: of bodies and messages that are not complete, or wait to be handled

    def count_arriving(self, now: int) -> None:
        """Count what the connection holds now; if that is too much,
        reading pauses, and then it is refused.
        """
        budget = self.connections.budgets.arriving
        more = now - self.arriving
        if not more or self.is_released:
            return
        budget.add(self.client, more)
        self.arriving = now
        if more > 0 and self.room_timer is None and not budget.has_room(self.client):
            self.hold(ROOM)
            self.room_deadline = self.loop.time() + (
                ROOM_SECONDS if budget.used < EXCESS * budget.limit else 0
            )
            self._wait_for_room()

    def _wait_for_room(self) -> None:
        self.room_timer = None
        if self.is_closing():
            return
        if self.connections.budgets.arriving.has_room(self.client) or (
            self.loop.time() >= self.room_deadline and self._protocol().refuse_arriving()
        ):
            self.unhold(ROOM)
        else:
            self.room_timer = self.loop.call_later(ROOM_POLL_SECONDS, self._wait_for_room)

    # Writing: unread bytes are counted, and must become fewer

    def write(self, data: Any) -> None:
        if self.is_lingering or self.is_released:
            return
        self.inner.write(data)
        self.written += len(data)
        waiting = self.inner.get_write_buffer_size()
        if waiting or self.unread:
            self._count_unread(waiting)
            if waiting and self.send_timer is None:
                self.progress_time = self.loop.time()
                self.taken = self.written - waiting
                self._watch_progress()
            if not self.connections.budgets.unread.has_room(self.client):
                self.connections.relieve_unread(self.client)

    def update_unread(self) -> None:
        """Count what is unread now; the event loop does not say
        when the client reads some of it.
        """
        if self.unread and not self.is_released:
            self._count_unread(self.inner.get_write_buffer_size())

    def _count_unread(self, now: int) -> None:
        self.connections.budgets.unread.add(self.client, now - self.unread)
        self.unread = now

    def _watch_progress(self) -> None:
        self.send_timer = self.loop.call_later(
            self.connections.send_timeout / PROGRESS_CHECKS, self._check_progress
        )

    def _check_progress(self) -> None:
        self.send_timer = None
        self.update_unread()
        if not self.unread or self.is_released:
            return
        now = self.loop.time()
        taken = self.written - self.unread
        if taken > self.taken:
            self.progress_time = now
            self.taken = taken
        elif now - self.progress_time >= self.connections.send_timeout:
            message = f"The client read nothing for {self.connections.send_timeout:g} seconds."
            self.refuse(ApiError("send_timeout", message))
            return
        self._watch_progress()

    # Closing

    def close(self) -> None:
        """Close when everything is written; if the client is still sending,
        read and discard that for a moment.
        """
        if not self.is_receiving or self.is_released or self.is_closing():
            self.inner.close()
        elif self.connections.lingering < self.connections.max_lingering:
            self._linger()
        else:
            self.inner.close()

    def _linger(self) -> None:
        self.is_lingering = True
        self.connections.lingering += 1
        if self.pauses:
            self.pauses.clear()
            self.inner.resume_reading()
        if self.inner.can_write_eof():  # not over TLS
            with suppress(OSError):  # the client has reset the connection
                self.inner.write_eof()
        self.timer = self.loop.call_later(LINGER_SECONDS, self.inner.close)

    def close_for_shutdown(self) -> None:
        """Abort the connection if its client has not read everything after SHUTDOWN_SECONDS."""
        self.loop.call_later(SHUTDOWN_SECONDS, self.inner.abort)

    def abort(self) -> None:
        self.inner.abort()

    def is_closing(self) -> bool:
        return self.is_lingering or self.inner.is_closing()

    # What is passed on

    def _protocol(self) -> ClientProtocol:
        return self.inner.get_protocol()  # type: ignore[return-value]

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.inner.get_extra_info(name, default)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.inner.get_protocol()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.inner.set_protocol(protocol)

    def get_write_buffer_size(self) -> int:
        return self.inner.get_write_buffer_size()
