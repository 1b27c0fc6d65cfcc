"""Bare connections to a server, for what no client library sends."""

import json
import socket
import struct
from contextlib import contextmanager

import httpx

from scanline.server.api.routes.page import BUILT
from tests.support.server.running_server import PATIENCE

ASSET = max((BUILT / "assets").iterdir(), key=lambda path: path.stat().st_size)
GET_ASSET = f"GET /assets/{ASSET.name} HTTP/1.1\r\nhost: [::1]\r\n\r\n".encode()
# 12 MB: more than a socket's buffers take, and than is read in some seconds
GET_ASSETS = 8 * GET_ASSET


@contextmanager
def open_connection(server, receive_buffer=0, source="127.0.0.1"):
    """A connection for as long as the context lasts; with a small receive buffer, unread data
    stays at the server. `source` is the client's address: all of 127.0.0.0/8 are this
    machine, and each is another client."""
    address = httpx.URL(server.url)
    with socket.socket() as connection:
        connection.bind((source, 0))
        if receive_buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(PATIENCE)
        connection.connect((address.host, address.port))
        yield connection


def read_until_closed(connection):
    data = b""
    try:
        while more := connection.recv(65536):
            data += more
    except ConnectionResetError:  # the server closed with some of what was sent unread
        pass
    return data


def parse_response(data):
    head, _, body = data.partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    return httpx.Response(
        int(status.split()[1]), headers=[tuple(line.split(": ", 1)) for line in lines], content=body
    )


def exchange(server, data, source="127.0.0.1"):
    """Sends data on a connection of its own; returns all that the
    server sends until it closes it.
    """
    with open_connection(server, source=source) as connection:
        connection.sendall(data)
        return read_until_closed(connection)


def response_on(connection):
    """The one response that the server sends before it closes the connection."""
    return parse_response(read_until_closed(connection))


def answer_to(server, data, source="127.0.0.1"):
    """The one response to data on a connection of its own, which the server then closes."""
    return parse_response(exchange(server, data, source))


def post_request(url, fields, **headers):
    """The bytes of a POST request with a JSON body; `_` in header names stands for `-`."""
    body = json.dumps(fields).encode()
    sent = {
        "host": "localhost",
        "content-type": "application/json",
        "content-length": str(len(body)),
        **headers,
    }
    head = [
        f"POST {url} HTTP/1.1",
        *(f"{name.replace('_', '-')}: {value}" for name, value in sent.items()),
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def until(connection, end):
    """What the server sends, up to and including `end`."""
    data = b""
    while end not in data:
        more = connection.recv(65536)
        assert more, data
        data += more
    return data


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


CLOSES = {
    "close": socket.socket.close,
    "reset": reset,
    "half-close": lambda connection: connection.shutdown(socket.SHUT_WR),
}
