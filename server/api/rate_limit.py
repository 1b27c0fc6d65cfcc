"""How fast messages come and go: what a client may send, and what all of them together are sent."""

import asyncio
import time

NOW = 0.005  # seconds that are not worth a pause


class Pace:
    """So many messages a second, and after a rest as many at once; knows one client, constant in size."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.saved, self.seen = float(rate), time.monotonic()

    def allows_one_more(self) -> bool:
        """Whether a message that comes now is within the rate; to be asked once for each."""
        now = time.monotonic()
        self.saved = min(self.rate, self.saved + (now - self.seen) * self.rate) - 1
        self.seen = now
        return self.saved >= 0


class FramePace:
    """At most so many frames a second over all websockets, for where a reader who is behind does not hold them up.

    Whoever has sent frames pauses for their time; what is painted meanwhile is merged into the next ones.
    """

    def __init__(self, rate: int | None) -> None:
        self.each = 1 / rate if rate else 0.0
        self.free_at = 0.0

    async def sent(self, frames: int) -> None:
        """Returns when the next ones may be sent."""
        now = time.monotonic()
        self.free_at = max(now, self.free_at) + frames * self.each
        if self.free_at - now > NOW:
            await asyncio.sleep(self.free_at - now)
