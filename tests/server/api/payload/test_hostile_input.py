"""Hostile input: the response is 200 or an error of the one shape,
and the server paints as before.
"""

from collections import deque

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosed

from scanline.server.api.payload import schemas
from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_error
from tests.support.server.hostile_pictures import PICTURES, bomb
from tests.support.server.routes import (
    CLASSIFICATIONS,
    CODES,
    DECODINGS,
    EDITS,
    GENERATIONS,
    LIKELIHOODS,
    STEPS,
)
from tests.support.server.running_server import PATIENCE
from tests.support.server.websocket_client import connected

FILE = encode(noise(7, 5))
IMAGE = text(FILE)
MASK = text(encode(np.where(np.arange(35) < 20, 255, 0).astype(np.uint8).reshape(7, 5)))

HEAD = b'--x\r\ncontent-disposition: form-data; name="'
END = b"\r\n--x--\r\n"


def part(name, data, more=b""):
    return HEAD + name + b'"' + more + b"\r\n\r\n" + data + b"\r\n"


KEPT = part(b"keep_rows", b"3")
UPLOAD = part(b"image", FILE, b'; filename="a"')
GIVEN = UPLOAD + KEPT
X = "multipart/form-data; boundary=x"
FILENAME = b'; filename="a"\r\n'
FORMS = {  # label: content type, body; each must be refused
    "no boundary": ("multipart/form-data", GIVEN + END),
    "a long boundary": (f"multipart/form-data; boundary={'x' * 10_000}", GIVEN + END),
    "a boundary of odd letters": ("multipart/form-data; boundary=\xff\xfe", GIVEN + END),
    "a part without a head": (X, UPLOAD + b"--x\r\n\r\n1" + END),
    "a part with an empty name": (X, GIVEN + part(b"", b"1") + END),
    "a part with a name of brackets": (X, GIVEN + part(b"[]", b"1") + END),
    "a name that is no UTF-8": (X, GIVEN + part(b"\xff\xfe", b"1") + END),
    "a text that is no UTF-8": (X, GIVEN + part(b"model", b"\xff\xfe") + END),
    "a charset that is none": (f"{X}; charset=seven", UPLOAD + part(b"model", b"\xe9") + END),
    "a count twice": (X, GIVEN + part(b"n", b"1") * 2 + END),
    "a form in the form": (
        X,
        part(b"image", UPLOAD, FILENAME + b"content-type: multipart/mixed; boundary=x") + END,
    ),
    "base64 in the form": (
        X,
        part(b"image", IMAGE.encode(), FILENAME + b"content-transfer-encoding: base64") + END,
    ),
    "very many texts": (X, UPLOAD + b"".join(part(b"f%d" % i, b"1") for i in range(1500)) + END),
    "a part with a long head": (
        X,
        part(b"image", FILE, b'; filename="a"\r\nx-remark: ' + b"a" * 90_000) + END,
    ),
    "a part with many heads": (
        X,
        part(b"image", FILE, b'; filename="a"' + b"\r\na: b" * 9000) + END,
    ),
    "a count that is no number": (X, GIVEN + part(b"n", "\uff14".encode()) + END),
    "a count of zeros": (X, GIVEN + part(b"n", b"0" * 5000) + END),
    "lines without returns": (X, (GIVEN + END).replace(b"\r\n", b"\n")),
    "its end missing": (X, GIVEN[:-2]),
}
TEXTS = {  # label: what takes long if it is normalised, sorted or matched as it is
    "marks out of order": 15_990 * "\u0301" + 15_990 * "\u0323" + " seven",
    "marks that decompose": 31_990 * "\u0f73" + " seven",
    "white space": 31_990 * "\t" + "x",
    "digits": 31_990 * "7",
    "ranges": "1-2," * 7_990,
    "commas": "," * 31_990,
}
ROUTES = {  # the schema of each, and what it needs besides
    GENERATIONS: (schemas.GenerationRequest, {}),
    EDITS: (schemas.EditRequest, {"image": IMAGE, "mask": MASK}),
    LIKELIHOODS: (schemas.LikelihoodRequest, {"image": IMAGE}),
    CLASSIFICATIONS: (schemas.ClassificationRequest, {"image": IMAGE}),
    CODES: (schemas.CodesRequest, {"image": IMAGE}),
    DECODINGS: (schemas.DecodingRequest, {"code": "AAAA"}),
    STEPS: (schemas.StepsRequest, {"image": IMAGE, "layer": 0, "head": 0}),
}
# label: address and what is sent
PICTURE_ROUTES = {
    "likelihoods": lambda data: (LIKELIHOODS, {"json": {"image": text(data)}}),
    "an edit of it": lambda data: (EDITS, {"files": {"image": data}, "data": {"keep_rows": "3"}}),
    "its alpha": lambda data: (EDITS, {"files": {"image": data}}),
    "a mask": lambda data: (
        EDITS,
        {"files": {"image": FILE, "mask": data}, "data": {"stream": "true"}},
    ),
}
FLOODS = {  # label: messages that are sent many times at once
    "cancels": [{"type": "cancel", "id": 7}],
    "jobs": [{"type": "generate"}],
    "jobs of one name": [{"type": "generate", "id": "same"}, {"type": "cancel", "id": "same"}],
    "pictures": [{"type": "complete", "image": IMAGE, "mask": MASK}],
}

pytestmark = pytest.mark.usefixtures("small_room_client")


def assert_one_sentence(label, response, *statuses):
    __tracebackhide__ = True
    assert response.status_code in statuses, (label, response.text[:1000])
    if response.status_code != 200:
        error = response.json()["error"]
        assert_error({"error": {**error, "param": None}}, None, error["code"])


@pytest.mark.parametrize("route", PICTURE_ROUTES)
def test_pictures(small_room_client, route):
    for label, data in {**PICTURES, "a bomb": bomb()}.items():
        url, sent = PICTURE_ROUTES[route](data)
        assert_one_sentence(label, small_room_client.post(url, **sent), 200, 400)


def test_forms(small_room_client):
    for label, (kind, body) in FORMS.items():
        headers = {"content-type": kind.encode("latin-1")}
        assert_one_sentence(
            label, small_room_client.post(EDITS, content=body, headers=headers), 400, 404, 413, 415
        )


@pytest.mark.parametrize("path", ROUTES)
def test_texts(small_room_client, path):
    """Every field that may hold a text, of every route that reads one from a client."""
    schema, given = ROUTES[path]
    for field in sorted(schemas.field_names(schema) - given.keys()):
        for label, hostile in TEXTS.items():
            response = small_room_client.post(path, json={**given, field: hostile})
            assert_one_sentence(f"{field}: {label}", response, 200, 400, 404)


@pytest.mark.parametrize("kind", ["generate", "complete"])
def test_texts_on_the_websocket(small_room_server, kind):
    given = {} if kind == "generate" else {"image": IMAGE, "keep_rows": 3}
    for field in ("prompt", "class", "id", "model", "type", "size"):
        for label, hostile in TEXTS.items():
            with connected(small_room_server.url) as websocket:
                websocket.send(**{"type": kind, **given, field: hostile})
                assert websocket.receive().order[0] in ("started", "error"), (field, label)


def test_a_text_that_is_no_utf_8_closes_its_connection(small_room_server):
    with connected(small_room_server.url) as websocket:
        websocket.socket.protocol.send_text(b'{"type": "\xff"}')
        websocket.socket.socket.sendall(b"".join(websocket.socket.protocol.data_to_send()))
        with pytest.raises(ConnectionClosed):
            websocket.socket.recv(timeout=PATIENCE)


@pytest.mark.parametrize("label", FLOODS)
def test_a_flood(small_room_server, label):
    """The connection is closed, and the jobs that were started end with it."""
    with connected(small_room_server.url) as websocket:
        websocket.send_together(*FLOODS[label] * 1000)
        with pytest.raises(ConnectionClosed):
            deque(iter(lambda: websocket.socket.recv(timeout=PATIENCE), None))
