"""Rate limits: messages of one client, frames sent to all clients
together, and one client's overhead.
"""

import asyncio
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

SHORTEST_PAUSE = 0.005  # seconds; a shorter pause is not worth a turn of the event loop
BURST_SECONDS = 12.5  # of a client's overhead that cause no delay
MAX_DELAY_SECONDS = 30.0
# that nothing is read from a new connection at most: it may carry a health probe
CONNECTION_SECONDS = 0.5
MAX_CLIENTS = 4096  # that are remembered
METRICS_UNITS = 40.0  # of an answer with all metrics, about 8 ms
UNIT_SECONDS = 0.0002  # of the event loop
BYTES_PER_UNIT = 32_768
CONNECTION_UNITS = 2.0  # of a connection that is refused, or ends, before it carries a request
# a probe waits no longer: behind a network's address translation it shares a stranger's address
PROBE_SECONDS = 0.1
PROBES_PER_SECOND = 50.0  # of one client that has to wait: beyond that its probes wait longer
WEBSOCKET_UNITS = 4.0  # of a websocket on which no job was done
# of a wrong API key that is refused since too many of its client's wait for their answers
REFUSED_KEY_UNITS = 4.0
# of a request for work that returns none: its body was parsed, and perhaps a picture decoded
FAILED_WORK_UNITS = 2.0


class TokenBucket:
    """Allow `rate` messages per second of one client, and a burst of
    `rate` after a second of silence.
    """

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.tokens = float(rate)
        self.updated = time.monotonic()

    def take(self) -> bool:
        """Take a token for a message that has just come; False if it exceeds the rate."""
        now = time.monotonic()
        self.tokens = min(self.rate, self.tokens + (now - self.updated) * self.rate) - 1
        self.updated = now
        return self.tokens >= 0


class FrameThrottle:
    """Send at most `rate` frames per second over all websockets; None: no limit.

    A websocket that has sent frames pauses for their time; what is painted
    meanwhile is merged into its next frames.
    """

    def __init__(self, rate: int | None) -> None:
        self.seconds_per_frame = 1 / rate if rate else 0.0
        self.free_at = 0.0  # when the frames sent so far, by any websocket, have used up their time

    async def pause(self, frames: int) -> None:
        """Return when more may be sent by a websocket that has just sent `frames`."""
        now = time.monotonic()
        self.free_at = max(now, self.free_at) + frames * self.seconds_per_frame
        if self.free_at - now > SHORTEST_PAUSE:
            await asyncio.sleep(self.free_at - now)


@dataclass
class Account:
    """One client's overhead: what it has caused lately, less what time has paid off."""

    units: float = 0.0
    updated: float = 0.0
    waiting: float = 0.0  # units of its requests and messages that are delayed now
    probed: float = 0.0  # when all probes that were delayed have been paid for


class OverheadLimit:
    """Delay clients that cause more than `rate` units of overhead per second.

    Overhead is what the server does without painting or reading an image: errors, pages, metrics,
    handshakes. A unit is a request or message that ends so, BYTES_PER_UNIT received or sent for it,
    or UNIT_SECONDS of the event loop beyond what is free (loop_time.py), which requests that return
    images pay as well: only the engine's time is shared between clients elsewhere. What a client
    sends next is handled later, at `rate`, and never refused.
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate
        # the one that was used last is last
        self.accounts: OrderedDict[str, Account] = OrderedDict()

    def charge(self, client: str | None, units: float) -> None:
        """Count overhead; a client of None has no limit."""
        if client is not None:
            account = self._account(client)
            account.units = min(
                account.units + units, self.rate * (BURST_SECONDS + MAX_DELAY_SECONDS)
            )

    def delay(self, client: str | None) -> float:
        """Return the seconds until what the client has sent should be handled, 0 for at once."""
        if client is None or client not in self.accounts:
            return 0.0
        account = self._account(client)
        excess = account.units - self.rate * BURST_SECONDS
        if excess <= 0 and not account.waiting:
            return 0.0
        return min(MAX_DELAY_SECONDS, (max(0.0, excess) + account.waiting) / self.rate)

    def _probe_delay(self, client: str | None, cost: float) -> float:
        """Return the seconds until a probe, which costs as much as so many, should be answered."""
        seconds = self.delay(client)
        if client is None or not seconds:
            return 0.0
        account = self._account(client)
        now = time.monotonic()
        account.probed = max(account.probed, now) + cost / PROBES_PER_SECOND
        return min(seconds, max(PROBE_SECONDS, account.probed - now))

    async def wait(self, client: str | None, until: asyncio.Event, probe: float = 0.0) -> float:
        """Wait as long as `delay` says, until an event at most; a probe, of which this is the
        cost, waits less. Return the delay."""
        seconds = self._probe_delay(client, probe) if probe else self.delay(client)
        if client is not None and seconds > 0:
            account = self._account(client)
            units = max(1.0, probe)
            account.waiting += units
            try:
                with suppress(TimeoutError):
                    await asyncio.wait_for(until.wait(), seconds)
            finally:
                account.waiting -= units
        return seconds

    def _account(self, client: str) -> Account:
        now = time.monotonic()
        account = self.accounts.pop(client, None) or Account(updated=now)
        account.units = max(0.0, account.units - self.rate * (now - account.updated))
        account.updated = now
        self.accounts[client] = account
        if len(self.accounts) > MAX_CLIENTS:
            self.accounts.popitem(last=False)
        return account


def units_of(size: int) -> float:
    """Return the overhead of one request or message of so many
    bytes, those of its answer included.
    """
    return 1 + size / BYTES_PER_UNIT
