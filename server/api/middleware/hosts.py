"""Host names that are served: a page whose name was made to resolve
to this machine sends its own name.

A server on the loopback interface without API keys trusts every client. Any web page can be one:
its name first resolves to its own server and then to 127.0.0.1 (DNS rebinding), and the browser
takes both for one origin. Only the Host header tells them apart.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import ip_address

from starlette.types import Receive, Scope, Send

from scanline.server.api.base.errors import ApiError, refuse
from scanline.server.api.middleware.observe import PROBES
from scanline.server.api.middleware.server_middleware import ServerMiddleware

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
ALL = "*"
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:\[\]@/]+)(?::\d*)?")
NOT_ALLOWED = "This host name is not allowed; --allow-host allows it."


def served_hosts(
    bound: str, allowed: Collection[str], is_local: bool, needs_key: bool
) -> frozenset[str] | None:
    """Return the host names to serve, in lower case, IPv6 addresses in brackets; None: all.

    `bound` is the address that the server listens on, `is_local`
    whether only this machine reaches it.
    """
    names = frozenset(_bracketed(name.lower()) for name in allowed)
    if ALL in names:
        return None
    if is_local and not needs_key:
        return names | LOOPBACK_NAMES | {_bracketed(bound.lower())}
    return names or None


@dataclass(eq=False)
class HostMiddleware(ServerMiddleware):
    """Answer 421 to a request or websocket whose Host header is not one of `names`, with any port.

    A request without the header passes: every browser sends one. Health probes and
    metrics may also use an IP address, as kubelets and Prometheus do; no web page of
    another origin has one for its name.
    """

    names: Collection[str]

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._serves(scope):
            await self.app(scope, receive, send)
            return
        await refuse(ApiError("host_not_allowed", NOT_ALLOWED), scope, receive, send)

    def _serves(self, scope: Scope) -> bool:
        hosts = [
            HOST.fullmatch(value.decode("latin-1").lower())
            for name, value in scope["headers"]
            if name == b"host"
        ]
        # absolute, as of DNS
        names = [None if host is None else host[1].removesuffix(".") for host in hosts]
        is_probe = scope["type"] == "http" and scope["path"] in PROBES
        return all(
            name is not None and (name in self.names or (is_probe and _is_address(name)))
            for name in names
        )


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name
