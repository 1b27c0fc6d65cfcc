"""What clients spell in their own way: each body is read as the plain one
is, or refused by the right name.
"""

import base64
import json

import httpx
import pytest

from tests.support.server.error_answers import assert_refused
from tests.support.server.json_requests import FILES
from tests.support.server.routes import EDITS, GENERATIONS
from tests.support.server.sockets import answer_to, open_connection, post_request, until

PICTURE = FILES["image"]
BASE64 = base64.b64encode(PICTURE).decode()
URL = f"data:image/png;base64,{BASE64}"
PLAIN = {"image": BASE64, "keep_rows": 3, "seed": 4}
FORM = {"keep_rows": "3", "seed": "4"}

JSON_BODIES = {  # label: the fields that differ from PLAIN; None leaves one out
    "a data URL": {"image": URL},
    "the official API's objects": {"image": None, "images": [{"image_url": URL}]},
    "a list of texts": {"image": None, "images": [URL]},
    "whole numbers with a point": {"seed": 4.0, "n": 1.0, "keep_rows": 3.0},
    "a byte order mark before it": {},
}
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def plain(server):
    return httpx.post(server.url + EDITS, json=PLAIN).json()["data"]


@pytest.mark.parametrize("label", JSON_BODIES)
def test_json(client, plain, label):
    fields = {
        name: value for name, value in {**PLAIN, **JSON_BODIES[label]}.items() if value is not None
    }
    mark = b"\xef\xbb\xbf" if "mark" in label else b""
    answer = client.post(EDITS, content=mark + json.dumps(fields).encode(), headers=JSON)
    assert answer.json().get("data") == plain, answer.text


@pytest.mark.parametrize("name", ["image", "image[]", "image[0]", "images", "images[]"])
def test_a_forms_picture_by_any_name_beside_fields_left_empty(client, plain, name):
    answer = client.post(
        EDITS,
        files={name: ("a.png", PICTURE), "mask": ("", b"")},
        data={**FORM, "n": "", "user": ""},
    )
    assert answer.json().get("data") == plain, answer.text


SPELLED = {"content-type": "multipart/form-data; charset=UTF8; boundary=x"}
DATA_URL = f"data:image/png;base64,{BASE64}".encode()


def part(parameters, content):
    return b"--x\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n" % (
        parameters.encode(),
        content,
    )


PICTURE_PARTS = {  # parameters of its Content-Disposition, and the content
    "an extended name of older urllib3": ("name=\"image\"; filename*=utf-8''a%20b.png", PICTURE),
    "an extended name in two parts": ('name="image"; FILENAME*0="a"; filename*1=".png"', PICTURE),
    "no name of a file, as .NET and Node send bytes": ("name=image", PICTURE),
    "a data URL of a canvas": ('name="image"', DATA_URL),
}


@pytest.mark.parametrize("label", PICTURE_PARTS)
def test_a_forms_picture_and_texts_in_other_parts(client, plain, label):
    rows = part('name="keep_rows"; filename="keep_rows"', b"3")
    body = b"".join(
        [
            part(*PICTURE_PARTS[label]),
            rows,
            part('name="seed"', b"4"),
            part('name="stream"', b"off"),
        ]
    )
    answer = client.post(
        EDITS, content=body + part('name="mask"', b"") + b"--x--\r\n", headers=SPELLED
    )
    assert answer.json().get("data") == plain, answer.text


@pytest.mark.parametrize(
    "headers",
    [
        *(
            {"content-type": kind}
            for kind in ("text/json", "application/vnd.api+json;charset=utf-8", "text/plain")
        ),
        {},
        {"content-type": "application/x-www-form-urlencoded"},
        {**JSON, "content-encoding": "utf-8", "expect": "100-continue"},
    ],
)
def test_a_body_that_is_an_object_of_json(client, plain, headers):
    answer = client.post(EDITS, content=json.dumps(PLAIN).encode(), headers=headers)
    assert answer.json().get("data") == plain, answer.text
    assert client.post(GENERATIONS, content=b' {"seed": 4}', headers=headers).status_code == 200


def test_a_path_with_too_many_slashes_names_the_right_one(client):
    models = ("//v1/models", "/v1/models/")
    for path, meant in (*((path, "/v1/models") for path in models), ("/v1/images/edits/", EDITS)):
        error = client.get(client.base_url.copy_with(raw_path=path.encode())).json()["error"]
        assert error["message"] == f"Not found; {meant} is the path."
    assert client.get("/v1/nothing/").json()["error"]["message"] == "Not found."


def test_a_websocket_that_is_not_opened_as_one_says_so(client):
    answer = client.get("/v1/images/stream")
    assert_refused(answer, 426, None, "upgrade_required")
    assert answer.headers["upgrade"] == "websocket"


def test_http_1_0_gets_no_chunks_and_keeps_its_connection_if_it_asks(server, client):
    # an answer of several parts, whose length is not known at its start
    fields = {"n": 2000, "seed": 1}
    expected = client.post(
        GENERATIONS, json=fields, headers={"accept": "application/x-npy"}
    ).content
    request = post_request(GENERATIONS, fields, accept="application/x-npy").replace(
        b"HTTP/1.1", b"HTTP/1.0"
    )
    answer = answer_to(server, request)
    assert "transfer-encoding" not in answer.headers
    assert answer.content == expected
    with open_connection(server) as connection:
        for _ in range(2):
            connection.sendall(
                b"GET /healthz HTTP/1.0\r\nhost: localhost\r\nconnection: keep-alive\r\n\r\n"
            )
            assert b"connection: keep-alive" in until(connection, b"\r\n\r\n")
