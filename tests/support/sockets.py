"""Bare connections to a server: for what no client library would send."""

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.support.running_server import PATIENCE, Server


@contextmanager
def wire(server: Server) -> Iterator[socket.socket]:
    """A connection for as long as the context lasts."""
    address = httpx.URL(server.url)
    with socket.create_connection((address.host, address.port), timeout=PATIENCE) as connection:
        yield connection


def rest(connection: socket.socket) -> bytes:
    """All that comes until the server closes."""
    data = b""
    try:
        while more := connection.recv(65536):
            data += more
    except ConnectionResetError:  # it closed with some of what was sent unread
        pass
    return data


def answer(data: bytes) -> httpx.Response:
    """The one answer that came."""
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = [tuple(line.split(": ", 1)) for line in lines]
    return httpx.Response(int(status.split()[1]), headers=headers, content=body)


def post(url: str, fields: object, **headers: str) -> bytes:
    """A request as it is sent."""
    body = json.dumps(fields).encode()
    told = {"host": "x", "content-type": "application/json", "content-length": str(len(body)), **headers}
    head = [f"POST {url} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
    return "\r\n".join([*head, "", ""]).encode() + body


def reset(connection: socket.socket) -> None:
    """Closes without a farewell."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
