"""What RFC 9110, 9112 and 7578 say must be refused, or must not be read;
trailers of a chunked body are dropped.
"""

import pytest

from scanline.server.api.base.errors import ApiError
from tests.server.api.payload.test_json_object import part, read
from tests.support.server.shared_servers import KEY
from tests.support.server.sockets import answer_to

GET = b"GET /healthz HTTP/1.1\r\n"
POST = b"POST /v1/images/generations HTTP/1.1\r\n"
HOST = b"host: [::1]\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
BODY = b"\r\n2\r\n{}\r\n0\r\n\r\n"
JSON = HOST + b"content-type: application/json\r\nconnection: close\r\n"
OLD = POST.replace(b"1.1", b"1.0") + JSON
MUSTS = {
    "9112 3.2: no Host": (GET + b"\r\n", 400),
    "9112 3.2: two Hosts": (GET + HOST + HOST + b"\r\n", 400),
    "9112 3.2: two Hosts of HTTP/1.0": (GET.replace(b"1.1", b"1.0") + HOST + HOST + b"\r\n", 400),
    "9112 3.2: a Host that is none": (GET + b"connection: close\r\nhost: a b\r\n\r\n", 400),
    "9112 5.1: a space before the colon": (GET + HOST + b"accept : */*\r\n\r\n", 400),
    "9112 5.2: a folded line": (GET + HOST + b"accept: */*\r\n text/plain\r\n\r\n", 400),
    "9110 5.5: a null in a value": (GET + HOST + b"accept: a\0b\r\n\r\n", 400),
    "9112 6.1: an unknown coding": (POST + JSON + b"transfer-encoding: x, chunked\r\n" + BODY, 501),
    "9112 6.1: a known one that is not read": (
        POST + JSON + b"transfer-encoding: gzip, chunked\r\n" + BODY,
        501,
    ),
    "9112 6.1: codings in two lines": (
        POST + JSON + b"transfer-encoding: gzip\r\n" + CHUNKED + BODY,
        501,
    ),
    "9112 6.1: chunked twice": (POST + JSON + CHUNKED + CHUNKED + BODY, 400),
    "9112 6.1: a coding of HTTP/1.0": (OLD + CHUNKED + BODY, 400),
    "9112 6.3: not chunked at the end": (
        POST + JSON + b"transfer-encoding: chunked, x\r\n" + BODY,
        400,
    ),
    "9112 6.3: a length and a coding": (
        POST + JSON + b"content-length: 5\r\n" + CHUNKED + BODY,
        400,
    ),
    "9112 6.3: two lengths": (
        POST + JSON + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        400,
    ),
    "9110 8.6: a length that is no number": (POST + JSON + b"content-length: +2\r\n\r\n{}", 400),
    "9112 7.1: a size that is no number": (
        POST + JSON + CHUNKED + b"\r\n0x2\r\n{}\r\n0\r\n\r\n",
        400,
    ),
    "9110 7.4: an Upgrade that is not known": (
        GET + HOST + b"connection: upgrade, close\r\nupgrade: x\r\n\r\n",
        200,
    ),
    "chunked in capitals": (POST + JSON + b"Transfer-Encoding: Chunked\r\n" + BODY, 200),
}


@pytest.mark.parametrize("must", MUSTS)
def test_http(server, must):
    request, status = MUSTS[must]
    assert answer_to(server, request).status_code == status


def test_a_parts_extended_name_makes_it_a_file_and_is_not_used():
    """RFC 7578, 4.2: filename* must not be sent; older clients send it alone."""
    assert read(part("image", b"seven", "; filename*=utf-8''a.png") + b"--x--\r\n", 99) == [
        ("image", b"seven")
    ]
    assert read(part("image", b"a", "; filename*=utf-8''b; filename=\"a\"") + b"--x--\r\n", 99) == [
        ("image", b"a")
    ]
    with pytest.raises(ApiError, match=r"name"):
        read(part("", b"a").replace(b'name=""', b"name*=utf-8''prompt") + b"--x--\r\n", 99)


CHUNKED_POST = POST + JSON + CHUNKED
SEEDED = b"\r\nd\r\n" + b'{"seed": 123}' + b"\r\n0\r\n"
AUTHORIZED = f"authorization: Bearer {KEY}\r\n".encode()
# as a header, each of them would change the answer; none becomes one (RFC 9110, 6.5.1)
TRAILERS = {
    "origin": b"https://elsewhere.example",
    "content-type": b"text/plain",
    "content-encoding": b"gzip",
    "host": b"elsewhere.example",
    "x-request-id": b"chosen",
    "accept": b"image/gif",
    "authorization": b"Bearer wrong",
    "x-forwarded-for": b"203.0.113.9",
}


@pytest.mark.parametrize("name", TRAILERS)
def test_a_trailer_changes_nothing(guarded_server, name):
    plain = answer_to(guarded_server, CHUNKED_POST + AUTHORIZED + SEEDED + b"\r\n")
    trailer = name.encode() + b": " + TRAILERS[name] + b"\r\n\r\n"
    after = answer_to(guarded_server, CHUNKED_POST + AUTHORIZED + SEEDED + trailer)
    assert plain.status_code == after.status_code == 200
    assert len(after.content) == len(plain.content)
    assert after.headers.keys() == plain.headers.keys()
    assert after.headers["x-request-id"] != "chosen"
    assert "203.0.113.9" not in guarded_server.log_text


def test_a_key_in_a_trailer_authorizes_nothing(guarded_server):
    assert (
        answer_to(guarded_server, CHUNKED_POST + SEEDED + AUTHORIZED + b"\r\n").status_code == 401
    )
