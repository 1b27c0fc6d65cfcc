"""What is refused over HTTP, in a form and on the websocket: the rows of tests/support/refusals."""

import json

import numpy as np
import pytest

from scanline.server.api.base.error_codes import STATUSES
from tests.support import refusals, shapes
from tests.support.pictures import encode, text
from tests.support.refusals import EVERYWHERE, IN_JSON, ON_THE_WEBSOCKET, SERVED
from tests.support.server.error_answers import assert_error
from tests.support.server.openai_clients import official
from tests.support.server.routes import (
    CLASSIFICATIONS,
    CODES,
    DECODINGS,
    EDITS,
    GENERATIONS,
    LIKELIHOODS,
    STEPS,
)
from tests.support.server.running_server import client_of, serve
from tests.support.server.shared_servers import NO_DELAY, arguments
from tests.support.server.websocket_client import connected

ROUTES = {
    "generate": GENERATIONS,
    "complete": EDITS,
    "score": LIKELIHOODS,
    "estimate": LIKELIHOODS,
    "classify": CLASSIFICATIONS,
    "compress": CODES,
    "decompress": DECODINGS,
    "inspect": STEPS,
}
STREAMED = ("generate", "complete")
LIMITS = {
    "slots": refusals.SLOTS,
    "max-images-per-request": refusals.MAX_IMAGES,
    "client-share": 1,
    **NO_DELAY,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory, grey_directory):
    directory = tmp_path_factory.mktemp("models") / "shapes"
    shapes.save(directory, shapes.GUIDED, class_head=True)
    with serve(directory, "--model", str(grey_directory), *arguments(LIMITS)) as server:
        yield server


client = client_of("server")


@pytest.fixture(scope="module")
def code(server):
    """A code of seven images."""
    with server.client() as client:
        pictures = [text(encode(refusals.IMAGE))] * 7
        return text(client.post(CODES, json={"image": pictures, "output_format": "file"}).content)


def as_json(value):
    if isinstance(value, list):
        return [as_json(each) for each in value]
    if isinstance(value, np.ndarray):
        return text(encode(value))
    return text(value) if isinstance(value, bytes) else value


def fields_of(row, code):
    """What is asked, with what the task needs besides."""
    needed = {} if row.task == "generate" else {"image": refusals.IMAGE}
    if row.task == "decompress":
        needed = {"code": code}
    if row.task == "inspect":
        needed |= {"layer": 0, "head": 0}
    fields = {**needed, **row.asked}
    return {name: as_json(value) for name, value in fields.items() if value is not None}


def assert_row(row, error):
    assert_error({"error": error}, row.param, row.code, STATUSES[row.code])
    assert error["message"] == row.sentence


@pytest.mark.parametrize("row", [*EVERYWHERE, *SERVED, *IN_JSON], ids=str)
def test_in_json(client, code, row):
    fields = fields_of(row, code)
    for more in ({}, {"stream": True}) if row.task in STREAMED else ({},):
        content = json.dumps({**more, **fields})  # NaN too, unlike httpx
        headers = {"content-type": "application/json"}
        response = client.post(ROUTES[row.task], content=content, headers=headers)
        assert response.status_code == STATUSES[row.code], response.text
        assert_row(row, response.json()["error"])


def is_in_forms(row):
    """Forms have pictures, and no lists of texts."""
    texts = [value for name, value in row.asked.items() if name != "image"]
    has_lists = any(isinstance(value, list) for value in texts)
    return row.task not in ("generate", "decompress") and not has_lists


IN_FORMS = [row for row in EVERYWHERE + SERVED if is_in_forms(row)]


@pytest.mark.parametrize("row", IN_FORMS, ids=str)
def test_in_a_form(client, row):
    asked = {"image": refusals.IMAGE, **row.asked}
    files = []
    data = {}
    for name, value in asked.items():
        if name in ("image", "mask"):
            for picture in value if isinstance(value, list) else [value]:
                if picture is not None:
                    files.append((name, picture if isinstance(picture, bytes) else encode(picture)))
        else:
            data[name] = str(value)
    response = client.post(ROUTES[row.task], files=files, data=data)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (STATUSES[row.code], row.param), error
    # a number of a form is a text
    assert error["message"].replace("'", "") == row.sentence.replace("'", "")


@pytest.mark.parametrize(
    "row",
    [row for row in EVERYWHERE + SERVED + ON_THE_WEBSOCKET if row.task in STREAMED],
    ids=str,
)
def test_on_the_websocket(server, row):
    with connected(server.url) as websocket:
        (error,) = websocket.paint(type=row.task, id="mine", **fields_of(row, "")).messages
        assert (error["type"], error["id"]) == ("error", "mine")
        assert_row(row, error["error"])
        assert websocket.paint(id="mine").last == "done"


def test_by_the_official_client(server):
    from openai import BadRequestError

    with official(server.url) as client:
        for row in EVERYWHERE:
            if row.task == "generate":
                with pytest.raises(BadRequestError) as caught:
                    client.images.generate(prompt="", extra_body=row.asked)
                error = caught.value
                assert (error.param, error.code) == (row.param, row.code)
                assert row.sentence in error.message
