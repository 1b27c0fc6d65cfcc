"""Trailers of a chunked body are counted and dropped: none becomes a header (RFC 9110, 6.5.1)."""

import pytest

from tests.support.server.running_server import Server
from tests.support.server.shared_servers import KEY
from tests.support.server.sockets import open_connection, parse_response, read_until_closed

HEAD = (
    b"POST /v1/images/generations HTTP/1.1\r\nhost: [::1]\r\nconnection: close\r\n"
    b"content-type: application/json\r\ntransfer-encoding: chunked\r\n"
)
BODY = b"\r\nd\r\n" + b'{"seed": 123}' + b"\r\n0\r\n"
AUTHORIZED = f"authorization: Bearer {KEY}\r\n".encode()
TRAILERS = {  # as a header, each of them would change the answer
    "origin": b"https://elsewhere.example",
    "content-type": b"text/plain",
    "content-encoding": b"gzip",
    "host": b"elsewhere.example",
    "x-request-id": b"chosen",
    "accept": b"image/gif",
    "authorization": b"Bearer wrong",
}


def answer(server: Server, headers: bytes, trailers: bytes) -> tuple[int, dict[str, str], bytes]:
    with open_connection(server) as connection:
        connection.sendall(HEAD + headers + BODY + trailers + b"\r\n")
        response = parse_response(read_until_closed(connection))
    return response.status_code, dict(response.headers), response.content


def test_a_key_in_a_trailer_authorizes_nothing(guarded_server: Server) -> None:
    assert answer(guarded_server, b"", AUTHORIZED)[0] == 401


@pytest.mark.parametrize("name", TRAILERS)
def test_a_trailer_changes_nothing(guarded_server: Server, name: str) -> None:
    status, headers, body = answer(guarded_server, AUTHORIZED, b"")
    assert status == 200
    after = answer(guarded_server, AUTHORIZED, name.encode() + b": " + TRAILERS[name] + b"\r\n")
    assert after[0] == 200, after
    assert len(after[2]) == len(body)
    assert after[1].keys() == headers.keys()
    assert after[1]["x-request-id"] != "chosen"


def test_the_client_in_a_trailer_is_not_logged(guarded_server: Server) -> None:
    answer(guarded_server, AUTHORIZED, b"x-forwarded-for: 203.0.113.9\r\n")
    assert "203.0.113.9" not in "".join(guarded_server.log)
