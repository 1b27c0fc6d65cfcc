"""Who a request comes from, for fair shares, quotas, the access log and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CLIENT = "scanline.client"  # where a scope keeps its Client once it is known


@dataclass(frozen=True)
class Client:
    """A key where there are keys, otherwise an address."""

    address: str  # "" on a unix socket
    key: str | None = None  # the name of its API key, never the key itself

    @property
    def id(self) -> str:
        """What shares and quotas are counted by."""
        return f"key {self.key}" if self.key is not None else f"address {self.address}"


def client_of(scope: Mapping[str, Any]) -> Client:
    """The client of a request or websocket: as the middleware found it, otherwise the connection's address."""
    found = scope.get(CLIENT)
    if isinstance(found, Client):
        return found
    host, _ = scope.get("client") or ("", 0)
    return Client(host)
