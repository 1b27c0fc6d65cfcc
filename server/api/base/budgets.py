"""Budgets of a process and of each client: open connections, bytes
in arrival, unread bytes, overhead.

Knows no socket and no protocol. A client is an IPv4 address, an IPv6 network of 64
bits or the unix socket; connections from trusted proxies count for the process
only, because many clients share them.
"""

from collections import Counter
from dataclasses import dataclass, field

from scanline.server.api.base.client import canonical, network_of
from scanline.server.api.base.rate_limit import OverheadLimit
from scanline.server.api.base.trusted_proxies import TrustedProxies
from scanline.server.settings import Settings


@dataclass
class SharedLimit:
    """A limit of the process, and for each client a share of what the others leave of it, so that a
    newcomer finds room however many have taken theirs. Amounts are counted even beyond them."""

    limit: int
    client_share: float
    used: int = 0
    by_client: Counter[str] = field(default_factory=Counter)

    def add(self, client: str | None, amount: int) -> None:
        """Count `amount`, which is negative when something is given
        back; a client of None has no share.
        """
        self.used += amount
        if client is not None and amount:
            self.by_client[client] += amount
            if not self.by_client[client]:
                del self.by_client[client]

    def has_room(self, client: str | None) -> bool:
        """Return whether what is counted is within the limit and within the client's share."""
        return self.used <= self.limit and (
            client is None or self.by_client[client] <= self.client_limit(client)
        )

    def client_limit(self, client: str) -> int:
        """Return what a client may hold now."""
        others = self.used - self.by_client[client]
        return max(1, int(self.client_share * (self.limit - others)))


class Budgets:
    """The budgets of a process."""

    def __init__(self, settings: Settings) -> None:
        share = settings.client_share
        self.connections = SharedLimit(settings.max_connections, share)
        # bytes of bodies and websocket messages
        self.arriving = SharedLimit(settings.max_arriving_bytes, share)
        # bytes written that clients have not read
        self.unread = SharedLimit(settings.max_unread_bytes, share)
        self.overhead = OverheadLimit(settings.max_overhead_per_second)
        self.proxies = TrustedProxies(settings.trusted_proxies)

    def client(self, address: str) -> str | None:
        """Return what the shares of a peer with this address ("": a unix socket)
        are counted by; None: it has none.
        """
        address = canonical(address)
        return None if self.proxies.trusts(address) else network_of(address)
