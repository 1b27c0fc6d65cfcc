"""The client of a request, for fair shares, quotas, the access log and metrics."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

CLIENT = "scanline.client"  # where a scope keeps its Client once it is known
# the id of the client that the current task works for
CURRENT: ContextVar[str] = ContextVar("client", default="")
IPV6_PREFIX = 64  # bits: the network that one subscriber has, who may use every address in it


@dataclass(frozen=True)
class Client:
    """A key where there are keys, otherwise an address."""

    address: str  # "" on a unix socket
    key: str | None = None  # the name of its API key, never the key itself

    @property
    def id(self) -> str:
        """What shares and quotas are counted by: the key's name, an IPv4
        address, or an IPv6 network of 64 bits.
        """
        return f"key {self.key}" if self.key is not None else f"address {network_of(self.address)}"


def client_of(scope: Mapping[str, Any]) -> Client:
    """Return the client of a request or websocket: as the middleware found it,
    otherwise the connection's address.
    """
    client = scope.get(CLIENT)
    if isinstance(client, Client):
        return client
    host, _ = scope.get("client") or ("", 0)
    return Client(canonical(host))


def canonical(address: str) -> str:
    """Return the one spelling of an address; a socket for both families reports
    IPv4 addresses inside of IPv6 ones.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or parsed)


def network_of(address: str) -> str:
    """Return the id of clients without a key: an IPv4 address, or an IPv6 network of 64 bits."""
    if ":" not in address:
        return address
    try:
        return str(ip_network((address, IPV6_PREFIX), strict=False))
    except ValueError:
        return address
