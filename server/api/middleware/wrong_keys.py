"""Delays of answers to wrong API keys, so that guessing keys is slow. Valid keys never wait.

The number of remembered addresses and of waiting answers is bounded.
"""

import asyncio
import time
from collections import Counter, OrderedDict

FREE = 5  # wrong keys from one address that are answered at once: people mistype
FIRST_SECONDS = 0.1  # the delay of the next one; doubles with each
LONGEST_SECONDS = 2.0
MEMORY_SECONDS = 60.0  # without a wrong key, after which an address starts anew
MAX_ADDRESSES = 4096
MAX_DELAYED = 512  # answers that wait at once; further ones are refused, not answered sooner
MAX_DELAYED_OF_ONE = 32  # the same, of one address


class WrongKeyDelays:
    """Wrong keys by the id of the client that sent them."""

    def __init__(self) -> None:
        # number and time of the last, oldest first
        self.counts: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self.delayed: Counter[str] = Counter()  # answers that wait now

    async def wait(self, client: str) -> bool:
        """Count a wrong key and wait as long as its answer must; False at once
        if too many answers wait already.
        """
        seconds = self._count(client)
        if not seconds:
            return True
        if self.delayed.total() >= MAX_DELAYED or self.delayed[client] >= MAX_DELAYED_OF_ONE:
            return False
        self.delayed[client] += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.delayed[client] -= 1
            if not self.delayed[client]:
                del self.delayed[client]
        return True

    def _count(self, client: str) -> float:
        """Count a wrong key; return the seconds that its answer must wait."""
        now = time.monotonic()
        count, last = self.counts.pop(client, (0, now))
        if now - last > MEMORY_SECONDS:
            count = 0
        self.counts[client] = (count + 1, now)
        if len(self.counts) > MAX_ADDRESSES:
            self.counts.popitem(last=False)
        doublings = min(count - FREE, 10)  # beyond ten it is the longest anyway
        return min(LONGEST_SECONDS, FIRST_SECONDS * 2**doublings) if doublings >= 0 else 0.0
