"""Bad messages on a websocket: an error message, and the connection lives on."""

import json
from collections.abc import Iterator

import pytest

from tests.support.error_answers import assert_error
from tests.support.pictures import encode, noise, text
from tests.support.running_server import Server
from tests.support.websocket_client import Painter, connected

IMAGE = text(encode(noise(7, 5)))

MESSAGES = {  # label: what is sent as it is, the parameter that is named, the code
    "not JSON": ("paint me a seven", None, "invalid_json"),
    "nothing": ("", None, "invalid_json"),
    "nested too deep": ("[" * 100_000, None, "invalid_json"),
    "a number without end": ("9" * 10_000, None, "invalid_json"),
    "binary": (b'{"type": "generate"}', None, "invalid_json"),
    "a list": ('[{"type": "generate"}]', None, "invalid_body"),
    "null": ("null", None, "invalid_body"),
    "no type": ({"n": 4}, "type", "invalid_value"),
    "an unknown type": ({"type": "paint"}, "type", "invalid_value"),
    "a type that is no text": ({"type": ["generate"]}, "type", "invalid_value"),
    "an id that is a list": ({"type": "generate", "id": [1]}, "id", "invalid_value"),
    "an id that is a truth": ({"type": "generate", "id": True}, "id", "invalid_value"),
    "an id without end": ({"type": "generate", "id": "a" * 257}, "id", "invalid_value"),
    "an id that is a fraction": ({"type": "generate", "id": 0.5}, "id", "invalid_value"),
    "a cancel without id": ({"type": "cancel"}, "id", "job_not_found"),
}

JOBS = {  # label: a job, the parameter that is named, the code
    "an unknown job to cancel": ({"type": "cancel"}, "id", "job_not_found"),
    "no images": ({"type": "generate", "n": 0}, "n", "invalid_value"),
    "too many images": ({"type": "generate", "n": 2001}, "n", "invalid_value"),
    "n as text": ({"type": "generate", "n": "4"}, "n", "invalid_value"),
    "a negative seed": ({"type": "generate", "seed": -1}, "seed", "invalid_value"),
    "temperature NaN": ({"type": "generate", "temperature": float("nan")}, "temperature", "invalid_value"),
    "a misspelt field": ({"type": "generate", "temprature": 1}, "temprature", "unknown_parameter"),
    "another size": ({"type": "generate", "size": "28x28"}, "size", "invalid_value"),
    "a stream in the stream": ({"type": "generate", "stream": True}, "stream", "stream_not_supported"),
    "a prompt": ({"type": "generate", "prompt": "a cat"}, "prompt", "prompt_not_supported"),
    "an unknown model": ({"type": "generate", "model": "white"}, "model", "model_not_found"),
    "an image for nothing": ({"type": "generate", "image": IMAGE}, "image", "unknown_parameter"),
    "no image": ({"type": "complete", "keep_rows": 3}, "image", "missing_parameter"),
    "nothing that decides": ({"type": "complete", "image": IMAGE}, "mask", "missing_parameter"),
    "all rows kept": ({"type": "complete", "image": IMAGE, "keep_rows": 7}, "keep_rows", "invalid_value"),
    "not base64": ({"type": "complete", "image": "seven!", "keep_rows": 3}, "image", "invalid_base64"),
    "a broken picture": ({"type": "complete", "image": IMAGE[:40], "keep_rows": 3}, "image", "invalid_image"),
    "a mask of another size": (
        {"type": "complete", "image": IMAGE, "mask": text(encode(noise(5, 7)))},
        "mask",
        "wrong_size",
    ),
}


@pytest.fixture
def painter(server: Server) -> Iterator[Painter]:
    with connected(server.url) as painter:
        yield painter


@pytest.mark.parametrize("label", MESSAGES)
def test_a_message_that_makes_no_sense_is_told_so(painter: Painter, label: str) -> None:
    message, param, code = MESSAGES[label]
    painter.socket.send(json.dumps(message) if isinstance(message, dict) else message)
    (error,) = painter.hear().messages
    assert (error["type"], error.get("id")) == ("error", None)
    assert_error(error, param, code)


@pytest.mark.parametrize("label", JOBS)
def test_a_bad_job_is_told_by_its_id(painter: Painter, label: str) -> None:
    fields, param, code = JOBS[label]
    (error,) = painter.paint(id="mine", **fields).messages
    assert (error["type"], error["id"]) == ("error", "mine")
    assert_error(error, param, code)


def test_the_connection_lives_on(painter: Painter) -> None:
    for message, _, _ in MESSAGES.values():
        painter.socket.send(json.dumps(message) if isinstance(message, dict) else message)
    painter.hear_ends(len(MESSAGES))
    assert painter.paint(type="generate").order[-1] == "done"


def test_an_id_that_runs_is_refused(painter: Painter) -> None:
    painter.send_together({"type": "generate", "id": "a", "n": 500}, {"type": "generate", "id": "a"})
    while painter.hear().order[-1] != "error":
        pass
    assert_error(painter.jobs["a"].messages[-1], "id", "invalid_value")


def test_the_job_of_a_refused_id_goes_on(painter: Painter) -> None:
    painter.send_together({"type": "generate", "id": "a", "n": 100}, {"type": "generate", "id": "a"})
    assert painter.hear_ends(2)["a"].images().shape == (100, 35)


def test_an_id_is_free_after_its_error(painter: Painter) -> None:
    painter.paint(type="generate", id="a", n=0)
    assert painter.paint(type="generate", id="a").order[-1] == "done"
