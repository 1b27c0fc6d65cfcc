"""Hostile input: the response is 200 or an error of the one shape, and the server is unharmed.

After each test it must paint as many images as it has room for, each of them with the bytes of its seed.
"""

import json
from collections import deque
from collections.abc import Iterator
from contextlib import suppress

import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import ONE_SENTENCE
from tests.support.server.hostile_pictures import PICTURES
from tests.support.server.running_server import PATIENCE, Server
from tests.support.server.server_health import assert_server_healthy
from tests.support.server.sockets import open_connection
from tests.support.server.websocket_client import NOT_READING, connected

GENERATIONS, EDITS, LIKELIHOODS = (f"/v1/images/{name}" for name in ("generations", "edits", "likelihoods"))
FILE = encode(noise(7, 5))
IMAGE = text(FILE)
MASK = text(encode(np.where(np.arange(35) < 20, 255, 0).astype(np.uint8).reshape(7, 5)))

JSON = {  # bodies that every route must refuse
    "a large exponent": b'{"temperature": 1e999}',
    "a small exponent": b'{"temperature": 1e-999}',
    "more digits than are converted": b'{"seed": ' + b"9" * 100_000 + b"}",
    "deep objects": b'{"n":' * 50_000 + b"1" + b"}" * 50_000,
    "a mark of the byte order": b'\xef\xbb\xbf{"n": 0}',
    "UTF-16": '{"n": 0}'.encode("utf-16"),
    "an overlong slash": b'{"model": "\xc0\xaf"}',
    "half a surrogate pair": b'{"model": "\\ud800"}',
    "half a surrogate pair in UTF-8": b'{"model": "\xed\xa0\x80"}',
    "a zero character": b'{"model": "grey\\u0000"}',
    "a line in a name": b'{"a\\nb": 1}',
    "a long name": b'{"' + b"a" * 50_000 + b'": 1}',
    "many names": json.dumps({f"field{i}": i for i in range(5000)}).encode(),
    "a name of dots": b'{"a.b. c": 1}',
    "the last of two counts": b'{"n": 1, "n": 0}',
    "a remark": b'{"n": 1} // one',
}

HEAD = b'--x\r\ncontent-disposition: form-data; name="'
END = b"\r\n--x--\r\n"


def part(name: bytes, data: bytes, more: bytes = b"") -> bytes:
    return HEAD + name + b'"' + more + b"\r\n\r\n" + data + b"\r\n"


KEPT = part(b"keep_rows", b"3")
UPLOAD = part(b"image", FILE, b'; filename="a"')
X = "multipart/form-data; boundary=x"
FILENAME = b'; filename="a"\r\n'
FORMS = {  # label: content type, body; each must be refused
    "no boundary": ("multipart/form-data", UPLOAD + KEPT + END),
    "a long boundary": (f"multipart/form-data; boundary={'x' * 10_000}", UPLOAD + KEPT + END),
    "a boundary of odd letters": ("multipart/form-data; boundary=\xff\xfe", UPLOAD + KEPT + END),
    "a part without a head": (X, UPLOAD + b"--x\r\n\r\n1" + END),
    "a part with an empty name": (X, UPLOAD + KEPT + part(b"", b"1") + END),
    "a part with a name of brackets": (X, UPLOAD + KEPT + part(b"[]", b"1") + END),
    "a name that is no UTF-8": (X, UPLOAD + KEPT + part(b"\xff\xfe", b"1") + END),
    "a text that is no UTF-8": (X, UPLOAD + KEPT + part(b"model", b"\xff\xfe") + END),
    "a charset that is none": (f"{X}; charset=seven", UPLOAD + part(b"model", b"\xe9") + END),
    "a count twice": (X, UPLOAD + KEPT + part(b"n", b"1") * 2 + END),
    "a form in the form": (X, part(b"image", UPLOAD, FILENAME + b"content-type: multipart/mixed; boundary=x") + END),
    "base64 in the form": (X, part(b"image", IMAGE.encode(), FILENAME + b"content-transfer-encoding: base64") + END),
    "very many texts": (X, UPLOAD + b"".join(part(b"f%d" % i, b"1") for i in range(1500)) + END),
    "a part with a long head": (X, part(b"image", FILE, b'; filename="a"\r\nx-remark: ' + b"a" * 90_000) + END),
    "a part with many heads": (X, part(b"image", FILE, b'; filename="a"' + b"\r\na: b" * 9000) + END),
    "a count that is no number": (X, UPLOAD + KEPT + part(b"n", "\uff14".encode()) + END),
    "a count of zeros": (X, UPLOAD + KEPT + part(b"n", b"0" * 5000) + END),
    "lines without returns": (X, (UPLOAD + KEPT + END).replace(b"\r\n", b"\n")),
    "its end missing": (X, UPLOAD + KEPT[:-2]),
}

MESSAGES: dict[str, str | bytes] = {  # each is answered by one error
    "empty binary": b"",
    "a type that is half a surrogate pair": '{"type": "\\ud800"}',
    "an id that is half a surrogate pair": '{"type": "cancel", "id": "\\ud800"}',
    "a long id": json.dumps({"type": "cancel", "id": "a" * 100_000}),
    "an id of many digits": '{"type": "cancel", "id": ' + "9" * 4000 + "}",
    "a field of no meaning": '{"type": "cancel", "id": 1, "n": 7}',
}


FLOODS = {  # label: messages that are sent many times at once
    "cancels": [{"type": "cancel", "id": 7}],
    "jobs": [{"type": "generate"}],
    "jobs of one name": [{"type": "generate", "id": "same"}, {"type": "cancel", "id": "same"}],
    "pictures": [{"type": "complete", "image": IMAGE, "mask": MASK}],
}


@pytest.fixture(scope="module")
def client(small_room_server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=small_room_server.url, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(autouse=True)
def healthy_afterwards(client: httpx.Client, full_request_images: np.ndarray) -> Iterator[None]:
    yield
    assert_server_healthy(client, full_request_images)


def assert_one_sentence(response: httpx.Response, *statuses: int) -> None:
    __tracebackhide__ = True
    assert response.status_code in statuses, response.text[:1000]
    if response.status_code != 200:
        error = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
        assert ONE_SENTENCE.fullmatch(error["message"]), error


@pytest.mark.parametrize("label", PICTURES)
def test_a_picture(client: httpx.Client, label: str) -> None:
    data = PICTURES[label]
    as_image = {"image": ("upload", data, "application/octet-stream")}
    as_mask = {"image": ("upload", FILE), "mask": ("mask", data)}
    assert_one_sentence(client.post(LIKELIHOODS, json={"image": text(data)}), 200, 400)
    assert_one_sentence(client.post(EDITS, files=as_image, data={"keep_rows": "3"}), 200, 400)
    assert_one_sentence(client.post(EDITS, files=as_image), 200, 400)
    assert_one_sentence(client.post(EDITS, files=as_mask, data={"stream": "true"}), 200, 400)


@pytest.mark.parametrize("label", JSON)
def test_json(client: httpx.Client, label: str) -> None:
    for url in (GENERATIONS, EDITS, LIKELIHOODS):
        response = client.post(url, content=JSON[label], headers={"content-type": "application/json"})
        assert_one_sentence(response, 400, 404)


@pytest.mark.parametrize("label", FORMS)
def test_a_form(client: httpx.Client, label: str) -> None:
    kind, body = FORMS[label]
    response = client.post(EDITS, content=body, headers={"content-type": kind.encode("latin-1")})
    assert_one_sentence(response, 400, 404, 413)


@pytest.mark.parametrize("label", MESSAGES)
def test_a_message(small_room_server: Server, label: str) -> None:
    with connected(small_room_server.url) as websocket:
        websocket.socket.send(MESSAGES[label])
        assert websocket.receive().messages[-1]["type"] == "error"
        assert websocket.paint(type="generate", id="after").order[-1] == "done"


def test_a_text_that_is_no_utf_8_closes_its_connection(small_room_server: Server) -> None:
    with connected(small_room_server.url) as websocket:
        websocket.socket.protocol.send_text(b'{"type": "\xff"}')
        websocket.socket.socket.sendall(b"".join(websocket.socket.protocol.data_to_send()))
        with pytest.raises(ConnectionClosed):
            websocket.socket.recv(timeout=PATIENCE)


def test_a_huge_message_closes_its_connection(small_room_server: Server) -> None:
    with connected(small_room_server.url) as websocket:
        with suppress(ConnectionClosed):  # perhaps before all has been sent
            websocket.socket.send('{"type": "' + "a" * 20_000_000 + '"}')
        with pytest.raises(ConnectionClosed):
            websocket.socket.recv(timeout=PATIENCE)


@pytest.mark.parametrize("label", FLOODS)
def test_a_flood(small_room_server: Server, label: str) -> None:
    """The connection is closed, and the jobs that were started end with it."""
    with connected(small_room_server.url) as websocket:
        websocket.send_together(*FLOODS[label] * 1000)
        with pytest.raises(ConnectionClosed):
            deque(iter(lambda: websocket.socket.recv(timeout=PATIENCE), None))


@pytest.mark.parametrize("label", FLOODS)
def test_a_flood_by_a_client_that_does_not_read(small_room_server: Server, label: str) -> None:
    with connected(small_room_server.url, **NOT_READING) as websocket:
        websocket.send_together(*FLOODS[label] * 50)


def test_bytes_that_are_no_request(small_room_server: Server, client: httpx.Client) -> None:
    for data in (noise(5000).tobytes(), b"GET / HTTP/9.9\r\n\r\n", b"POST\r\n\r\n", b"\r\n" * 500, b"\0" * 5000):
        with open_connection(small_room_server) as connection:
            connection.sendall(data)
    assert client.get("/healthz").status_code == 200
