"""A websocket's handshake and frames as bytes, for what no client library
sends; requests for LONG images.
"""

from websockets.frames import Frame, Opcode

from tests.support.server.routes import GENERATIONS
from tests.support.server.shared_servers import LONG
from tests.support.server.sockets import post_request, until

WEBSOCKET_HEAD = (
    b"GET /v1/images/stream HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


def frame(opcode, data=b"", fin=True):
    """A frame as a client sends it."""
    return Frame(opcode, data, fin=fin).serialize(mask=True, extensions=[])


def open_websocket(connection):
    """Makes a websocket of a bare connection, on which frames are then written by hand."""
    connection.sendall(WEBSOCKET_HEAD + b"\r\n")
    assert until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")


def begin_a_long_job(connection):
    open_websocket(connection)
    connection.sendall(frame(Opcode.TEXT, b'{"type": "generate", "n": %d}' % LONG))


EVENTS = {"n": LONG, "stream": True, "partial_images": 3}
# by transport: how a bare connection asks for LONG images
LONG_WORK = {
    "post": lambda connection: connection.sendall(post_request(GENERATIONS, {"n": LONG})),
    "events": lambda connection: connection.sendall(post_request(GENERATIONS, EVENTS)),
    "websocket": begin_a_long_job,
}
