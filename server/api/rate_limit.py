"""Rate limits: messages that one client sends, and frames sent to all clients together."""

import asyncio
import time

SHORTEST_PAUSE = 0.005  # seconds; a shorter pause is not worth a turn of the event loop


class TokenBucket:
    """Allows `rate` messages per second of one client, and a burst of `rate` after a second of silence."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.tokens, self.updated = float(rate), time.monotonic()

    def take(self) -> bool:
        """Take a token for a message that has just come; False if it exceeds the rate."""
        now = time.monotonic()
        self.tokens = min(self.rate, self.tokens + (now - self.updated) * self.rate) - 1
        self.updated = now
        return self.tokens >= 0


class FrameThrottle:
    """Sends at most `rate` frames per second over all websockets; None: no limit.

    A websocket that has sent frames pauses for their time; what is painted meanwhile is merged into its next frames.
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
