"""How fast a client may send messages: so many a second, and after a rest as many at once."""

import time


class Pace:
    """Knows one client; constant in size."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self.saved, self.seen = float(rate), time.monotonic()

    def allows_one_more(self) -> bool:
        """Whether a message that comes now is within the rate; to be asked once for each."""
        now = time.monotonic()
        self.saved = min(self.rate, self.saved + (now - self.seen) * self.rate) - 1
        self.seen = now
        return self.saved >= 0
