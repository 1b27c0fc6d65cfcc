"""Whose X-Forwarded-For is believed.

Behind a reverse proxy the connection's address is the proxy's. The client is then the right-most
address of the header that is not a proxy which the settings name, because everything left of it
was written by the client itself.
"""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from scanline.server.api.base.client import canonical

# among trusted proxies: whatever connects to the unix socket; in the log: its clients
UNIX = "unix"
MAX_HOPS = 32  # addresses of one request that are looked at


class TrustedProxies:
    """Addresses and networks whose X-Forwarded-For is believed."""

    def __init__(self, proxies: Iterable[str]) -> None:
        names = set(proxies)
        self.unix = UNIX in names
        self.networks: list[IPv4Network | IPv6Network] = [
            ip_network(name, strict=False) for name in names - {UNIX}
        ]

    def client_address(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return the address of the client of a connection from `peer` that
        carries these X-Forwarded-For headers.
        """
        address = peer
        hops = [hop for value in forwarded for hop in value.split(",")]
        for hop in reversed(hops[-MAX_HOPS:]):
            if not self.trusts(address) or (sender := _address(hop)) is None:
                break
            address = sender
        return address

    def trusts(self, address: str) -> bool:
        """Return whether it is the address of a trusted proxy; "" is that of a unix socket."""
        if not address:
            return self.unix
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self.networks)


def _address(hop: str) -> str | None:
    """Return the address in one field of X-Forwarded-For, in which some proxies
    write a port; None if it has none.
    """
    hop = hop.strip()
    if hop.startswith("["):
        hop = hop[1:].partition("]")[0]
    elif hop.count(":") == 1:
        hop = hop.partition(":")[0]
    try:
        ip_address(hop)
    except ValueError:
        return None
    return None if "%" in hop else canonical(hop)
