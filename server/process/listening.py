"""The sockets that a server listens on: all addresses of a host name, or a unix socket."""

import ctypes
import errno
import os
import socket
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from scanline.server.settings import Settings

ANY_IPV6 = "::"
ANY_IPV4 = "0.0.0.0"
# of an address whose family this machine does not use
NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
PORT_ATTEMPTS = 20  # at finding a port that is free on all addresses
SO_ATTACH_FILTER = 26  # of Linux
# Classic BPF (linux/filter.h): load the flags of a TCP header; drop the segment
# if SYN is among them, keep any other.
WITHOUT_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
SOCKET_MODE = 0o660  # of a new unix socket: connecting needs the right to write


@dataclass(frozen=True)
class Listening:
    """What a server listens on."""

    sockets: list[socket.socket]
    url: str | None  # None: a unix socket, which has none
    name: str  # for people
    is_local: bool  # whether only this machine reaches it

    def close(self) -> None:
        """Close this process's sockets before `listen` ends:
        others may go on listening on theirs.
        """
        for listening in self.sockets:
            listening.close()


@contextmanager
def listen(settings: Settings) -> Iterator[Listening]:
    """Listen while the context lasts. ValueError where the address is taken or not ours."""
    if settings.unix_socket is not None:
        with _unix_socket(settings.unix_socket) as listening:
            yield Listening([listening], None, f"unix socket {settings.unix_socket}", is_local=True)
        return
    with ExitStack() as stack:
        try:
            sockets = _sockets(settings.host, settings.port, stack)
        except OSError as error:
            # the socket module adds the address
            reason = str(error.strerror).partition(" (while")[0]
            raise ValueError(
                f"cannot listen on {settings.host}:{settings.port}: {reason}"
            ) from None
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        scheme = "http" if settings.tls_cert is None else "https"
        url = f"{scheme}://{host}:{sockets[0].getsockname()[1]}"
        yield Listening(sockets, url, url, all(map(_is_loopback, sockets)))


def ignore_attempts(listening: socket.socket) -> None:
    """Let the system begin no connection any more, and still accept
    those that have begun (TCP on Linux).

    A client's system tries again after a second, and is refused then. Without this, the
    system completes connections until the moment at which the socket is closed, and
    resets those that are not accepted yet.
    """
    if sys.platform != "linux" or listening.family == socket.AF_UNIX:
        return
    instructions = b"".join(struct.pack("HBBI", *instruction) for instruction in WITHOUT_SYN)
    buffer = ctypes.create_string_buffer(instructions)
    program = struct.pack("HP", len(WITHOUT_SYN), ctypes.addressof(buffer))
    with suppress(OSError):
        listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


def _sockets(host: str, port: int, stack: ExitStack) -> list[socket.socket]:
    """Listen on all addresses of `host`, with one port; OSError if an
    address is taken, or none is ours.
    """
    addresses = _addresses(host, port)
    for attempt in range(PORT_ATTEMPTS):
        try:
            with ExitStack() as opened:
                sockets = [
                    opened.enter_context(opened_socket)
                    for opened_socket in _sockets_of(addresses, port)
                ]
                stack.enter_context(opened.pop_all())
                return sockets
        except OSError as error:
            # The port that is free on the first address may be taken on the second.
            if port or error.errno != errno.EADDRINUSE or attempt == PORT_ATTEMPTS - 1:
                raise
    raise AssertionError


def _addresses(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in resolved))


def _sockets_of(
    addresses: list[tuple[socket.AddressFamily, str]], port: int
) -> list[socket.socket]:
    """Open a socket for each address, without those of families that this machine does not use."""
    sockets: list[socket.socket] = []
    refusal: OSError | None = None
    for family, address in addresses:
        try:
            sockets.append(_socket(family, address, port))
        except OSError as error:
            if error.errno not in NOT_HERE:
                for opened in sockets:
                    opened.close()
                raise
            refusal = error
            continue
        port = sockets[0].getsockname()[1]
    if refusal is not None and not sockets:
        raise refusal
    return sockets


def _socket(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    try:
        # `::` takes IPv4 as well; any other IPv6 address has nothing to do with IPv4.
        listening = socket.create_server(
            (address, port), family=family, dualstack_ipv6=address == ANY_IPV6
        )
    except (OSError, ValueError) as error:
        if address != ANY_IPV6 or (isinstance(error, OSError) and error.errno not in NOT_HERE):
            raise
        listening = socket.create_server((ANY_IPV4, port))  # a machine without IPv6
    # Accepted connections inherit it. asyncio sets it only on sockets with an explicit protocol
    # number, and without it a response waits for the client's delayed ACK.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _is_loopback(listening: socket.socket) -> bool:
    return ip_address(listening.getsockname()[0].partition("%")[0]).is_loopback


@contextmanager
def _unix_socket(path: Path) -> Iterator[socket.socket]:
    """Listen on a unix socket, in place of one that a dead server left, with its
    permissions; remove it at the end.
    """
    mode = _remove_stale(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        try:
            listening.bind(str(path))
            path.chmod(SOCKET_MODE if mode is None else mode)
            listening.listen()
            made = _identity(path)
        except OSError as error:
            raise ValueError(f"cannot listen on {path}: {error.strerror}") from None
        try:
            yield listening
        finally:
            with suppress(OSError):
                if _identity(path) == made:  # not another server's, made since
                    os.unlink(path)


def _identity(path: Path) -> tuple[int, int]:
    """Return a file's number and when it was made: another one gets the number once it is free."""
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def _remove_stale(path: Path) -> int | None:
    """Remove a socket without a listener and return its permissions, None where
    there is no file; else ValueError.
    """
    try:
        status = path.lstat()
        if not stat.S_ISSOCK(status.st_mode):
            raise ValueError(f"cannot listen on {path}: there is a file that is not a socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            probe.connect(str(path))
    except FileNotFoundError:
        return None
    except ConnectionRefusedError:
        path.unlink(missing_ok=True)
        return stat.S_IMODE(status.st_mode)
    except OSError as error:
        raise ValueError(
            f"cannot listen on {path}: {error.strerror or 'it does not answer'}"
        ) from None
    raise ValueError(f"cannot listen on {path}: another server does")
