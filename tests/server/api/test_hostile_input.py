"""Whatever is sent, the answer is 200 or a refusal in the one shape, and the server is as it was before.

After each piece it must paint as many images as it may have in work and waiting, all of them as their seed has
them.
"""

import json
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.error_answers import ONE_SENTENCE
from tests.support.hostile_pictures import PICTURES
from tests.support.pictures import encode, noise, text
from tests.support.running_server import PATIENCE, Server, serve
from tests.support.unharmed import ROOM, assert_unharmed
from tests.support.websocket_client import DEAF, connected

GENERATIONS, EDITS, LIKELIHOODS = (f"/v1/images/{name}" for name in ("generations", "edits", "likelihoods"))
FILE = encode(noise(7, 5))
IMAGE = text(FILE)
MASK = text(encode(np.where(np.arange(35) < 20, 255, 0).astype(np.uint8).reshape(7, 5)))

JSON = {  # bodies for every route, each of which must be refused
    "NaN": b'{"temperature": NaN}',
    "-Infinity": b'{"temperature": -Infinity}',
    "a large exponent": b'{"temperature": 1e999}',
    "a small exponent": b'{"temperature": 1e-999}',
    "many digits": b'{"n": ' + b"9" * 4000 + b"}",
    "more digits than are converted": b'{"seed": ' + b"9" * 100_000 + b"}",
    "a number with a fraction": b'{"n": 1.0000001}',
    "deep lists": b'{"n": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "deep objects": b'{"n":' * 50_000 + b"1" + b"}" * 50_000,
    "a mark of the byte order": b'\xef\xbb\xbf{"n": 0}',
    "UTF-16": '{"n": 0}'.encode("utf-16"),
    "UTF-32": '{"n": 0}'.encode("utf-32"),
    "bytes that are no UTF-8": b'{"model": "\xff\xfe"}',
    "an overlong slash": b'{"model": "\xc0\xaf"}',
    "half a surrogate pair": b'{"model": "\\ud800"}',
    "half a surrogate pair as size": b'{"size": "\\udfff"}',
    "half a surrogate pair as a name": b'{"\\ud800": 1}',
    "half a surrogate pair in UTF-8": b'{"model": "\xed\xa0\x80"}',
    "a zero character": b'{"model": "grey\\u0000"}',
    "a line in a name": b'{"a\\nb": 1}',
    "a long name": b'{"' + b"a" * 50_000 + b'": 1}',
    "many names": json.dumps({f"field{i}": i for i in range(5000)}).encode(),
    "an empty name": b'{"": 1}',
    "a name of dots": b'{"a.b. c": 1}',
    "the last of two counts": b'{"n": 1, "n": 0}',
    "single quotes": b"{'n': 1}",
    "a remark": b'{"n": 1} // one',
    "a comma too many": b'{"n": 1,}',
    "nothing but blanks": b"   \n",
}

HEAD = b'--x\r\ncontent-disposition: form-data; name="'
END = b"\r\n--x--\r\n"


def part(name: bytes, data: bytes, more: bytes = b"") -> bytes:
    return HEAD + name + b'"' + more + b"\r\n\r\n" + data + b"\r\n"


KEPT = part(b"keep_rows", b"3")
UPLOAD = part(b"image", FILE, b'; filename="a"')
X = "multipart/form-data; boundary=x"
FORMS = {  # label: content type, body; each must be refused
    "no boundary": ("multipart/form-data", UPLOAD + KEPT + END),
    "an empty boundary": ("multipart/form-data; boundary=", UPLOAD + KEPT + END),
    "another boundary": ("multipart/form-data; boundary=y", UPLOAD + KEPT + END),
    "a long boundary": (f"multipart/form-data; boundary={'x' * 10_000}", UPLOAD + KEPT + END),
    "a boundary of odd letters": ("multipart/form-data; boundary=\xff\xfe", UPLOAD + KEPT + END),
    "nothing": (X, b""),
    "only its end": (X, b"--x--\r\n"),
    "a part without a name": (X, b"--x\r\ncontent-disposition: form-data\r\n\r\n1" + END),
    "a part without a head": (X, UPLOAD + b"--x\r\n\r\n1" + END),
    "a part with an empty name": (X, UPLOAD + KEPT + part(b"", b"1") + END),
    "a part with a name of brackets": (X, UPLOAD + KEPT + part(b"[]", b"1") + END),
    "a name that is no UTF-8": (X, UPLOAD + KEPT + part(b"\xff\xfe", b"1") + END),
    "a text that is no UTF-8": (X, UPLOAD + KEPT + part(b"model", b"\xff\xfe") + END),
    "a charset that is none": (f"{X}; charset=seven", UPLOAD + part(b"model", b"\xe9") + END),
    "a count twice": (X, UPLOAD + KEPT + part(b"n", b"1") * 2 + END),
    "two masks": (X, UPLOAD + part(b"mask", FILE, b'; filename="a"') * 2 + END),
    "a form in the form": (
        X,
        part(b"image", UPLOAD, b'; filename="a"\r\ncontent-type: multipart/mixed; boundary=x') + END,
    ),
    "base64 in the form": (
        X,
        part(b"image", IMAGE.encode(), b'; filename="a"\r\ncontent-transfer-encoding: base64') + END,
    ),
    "very many texts": (X, UPLOAD + b"".join(part(b"f%d" % i, b"1") for i in range(1500)) + END),
    "very many files": (X, part(b"image", b"", b'; filename="a"') * 1500 + KEPT + END),
    "a part with a long head": (X, part(b"image", FILE, b'; filename="a"\r\nx-remark: ' + b"a" * 90_000) + END),
    "a part with many heads": (X, part(b"image", FILE, b'; filename="a"' + b"\r\na: b" * 9000) + END),
    "a count that is no number": (X, UPLOAD + KEPT + part(b"n", "\uff14".encode()) + END),
    "a count of zeros": (X, UPLOAD + KEPT + part(b"n", b"0" * 5000) + END),
    "a temperature that is none": (X, UPLOAD + KEPT + part(b"temperature", b"nan") + END),
    "lines without returns": (X, (UPLOAD + KEPT + END).replace(b"\r\n", b"\n")),
    "its end missing": (X, UPLOAD + KEPT[:-2]),
}

MESSAGES: dict[str, str | bytes] = {  # each is answered by one error
    "binary": noise(1000).tobytes(),
    "empty binary": b"",
    "empty": "",
    "no JSON": "paint",
    "an unknown type": '{"type": "paint"}',
    "a type that is half a surrogate pair": '{"type": "\\ud800"}',
    "an id that is half a surrogate pair": '{"type": "cancel", "id": "\\ud800"}',
    "a long id": json.dumps({"type": "cancel", "id": "a" * 100_000}),
    "an id of many digits": '{"type": "cancel", "id": ' + "9" * 4000 + "}",
    "more digits than are converted": '{"type": "cancel", "id": ' + "9" * 5000 + "}",
    "an id that is no name": '{"type": "generate", "id": {"a": 1}}',
    "an unknown job": '{"type": "cancel", "id": 7}',
    "deep lists": '{"type": ' + "[" * 50_000 + "]" * 50_000 + "}",
    "NaN": '{"type": "generate", "temperature": NaN}',
    "a field of no meaning": '{"type": "cancel", "id": 1, "n": 7}',
}


FLOODS = {  # label: messages that come many times together
    "cancels": [{"type": "cancel", "id": 7}],
    "jobs": [{"type": "generate"}],
    "jobs of one name": [{"type": "generate", "id": "same"}, {"type": "cancel", "id": "same"}],
    "pictures": [{"type": "complete", "image": IMAGE, "mask": MASK}],
}


@pytest.fixture(scope="module")
def server(grey_directory: Path) -> Iterator[Server]:
    options = {**ROOM, "max-body-bytes": 1_000_000, "max-messages-per-second": 20}
    with serve(grey_directory, *(f"--{name}={value}" for name, value in options.items())) as server:
        yield server
    log = "".join(server.log)
    assert "request failed" not in log, log[log.index("request failed") :][:5000]


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(autouse=True)
def unharmed(client: httpx.Client, alone: np.ndarray) -> Iterator[None]:
    yield
    assert_unharmed(client, alone)


def assert_tame(response: httpx.Response, *statuses: int) -> None:
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
    assert_tame(client.post(LIKELIHOODS, json={"image": text(data)}), 200, 400)
    assert_tame(client.post(EDITS, files=as_image, data={"keep_rows": "3"}), 200, 400)
    assert_tame(client.post(EDITS, files=as_image), 200, 400)
    assert_tame(client.post(EDITS, files=as_mask, data={"stream": "true"}), 200, 400)


@pytest.mark.parametrize("url", [GENERATIONS, EDITS, LIKELIHOODS])
@pytest.mark.parametrize("label", JSON)
def test_json(client: httpx.Client, label: str, url: str) -> None:
    response = client.post(url, content=JSON[label], headers={"content-type": "application/json"})
    assert_tame(response, 400, 404)


@pytest.mark.parametrize("label", FORMS)
def test_a_form(client: httpx.Client, label: str) -> None:
    kind, body = FORMS[label]
    assert_tame(client.post(EDITS, content=body, headers={"content-type": kind.encode("latin-1")}), 400, 404, 413)


@pytest.mark.parametrize("label", MESSAGES)
def test_a_message(server: Server, label: str) -> None:
    with connected(server.url) as painter:
        painter.socket.send(MESSAGES[label])
        assert painter.hear().messages[-1]["type"] == "error"
        assert painter.paint(type="generate", id="after").order[-1] == "done"


def test_a_text_that_is_no_utf_8_closes_its_connection(server: Server) -> None:
    with connected(server.url) as painter:
        painter.socket.protocol.send_text(b'{"type": "\xff"}')
        painter.socket.socket.sendall(b"".join(painter.socket.protocol.data_to_send()))
        with pytest.raises(ConnectionClosed):
            painter.socket.recv(timeout=PATIENCE)


def test_a_huge_message_closes_its_connection(server: Server) -> None:
    with connected(server.url) as painter:
        with suppress(ConnectionClosed):  # perhaps before all has been sent
            painter.socket.send('{"type": "' + "a" * 20_000_000 + '"}')
        with pytest.raises(ConnectionClosed):
            painter.socket.recv(timeout=PATIENCE)


@pytest.mark.parametrize("label", FLOODS)
def test_a_flood(server: Server, label: str) -> None:
    """It is cut off; the jobs that were begun end with their connection."""
    with connected(server.url) as painter:
        painter.send_together(*FLOODS[label] * 1000)
        with pytest.raises(ConnectionClosed):
            deque(iter(lambda: painter.socket.recv(timeout=PATIENCE), None))


@pytest.mark.parametrize("label", FLOODS)
def test_a_flood_that_nobody_reads(server: Server, label: str) -> None:
    with connected(server.url, **DEAF) as painter:
        painter.send_together(*FLOODS[label] * 50)


def test_bytes_that_are_no_request(server: Server, client: httpx.Client) -> None:
    address = httpx.URL(server.url)
    for data in (noise(5000).tobytes(), b"GET / HTTP/9.9\r\n\r\n", b"POST\r\n\r\n", b"\r\n" * 500, b"\0" * 5000):
        with socket.create_connection((address.host, address.port)) as connection:
            connection.sendall(data)
    assert client.get("/healthz").status_code == 200
