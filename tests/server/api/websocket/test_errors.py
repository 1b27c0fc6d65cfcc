"""Bad messages on a websocket: an error message, and the connection lives on."""

import json

import pytest

from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_error
from tests.support.server.websocket_client import WebsocketClient

IMAGE, OTHER = text(encode(noise(7, 5))), text(encode(noise(5, 7)))

MESSAGES = {  # label: what is sent as it is, the parameter that is named, the code
    "not JSON": ("paint me a seven", None, "invalid_json"),
    "nothing": ("", None, "invalid_json"),
    "nested too deep": ("[" * 100_000, None, "json_too_complex"),
    "a number without end": ("9" * 10_000, None, "invalid_json"),
    "binary": (b'{"type": "generate"}', None, "invalid_json"),
    "a list": ('[{"type": "generate"}]', None, "invalid_body"),
    "no type": ({"n": 4}, "type", "invalid_value"),
    "an unknown type": ({"type": "paint"}, "type", "invalid_value"),
    "a type that is no text": ({"type": ["generate"]}, "type", "invalid_value"),
    "an id that is a list": ({"type": "generate", "id": [1]}, "id", "invalid_value"),
    "an id without end": ({"type": "generate", "id": "a" * 257}, "id", "invalid_value"),
    "an id that is half a surrogate pair": ('{"type": "cancel", "id": "\\ud800"}', None, "invalid_json"),
    "an id that is a fraction": ({"type": "generate", "id": 0.5}, "id", "invalid_value"),
    "a cancel without id": ({"type": "cancel"}, "id", "job_not_found"),
}

JOBS = {  # label: a job, the parameter that is named, the code
    "an unknown job to cancel": ({"type": "cancel"}, "id", "job_not_found"),
    "no images": ({"type": "generate", "n": 0}, "n", "invalid_value"),
    "a misspelt field": ({"type": "generate", "temprature": 1}, "temprature", "unknown_parameter"),
    "a stream in the stream": ({"type": "generate", "stream": True}, "stream", "stream_not_supported"),
    "other pixels": ({"type": "generate", "size": "28x28", "size_policy": "resize"}, "size_policy", "invalid_value"),
    "an unknown model": ({"type": "generate", "model": "white"}, "model", "model_not_found"),
    "an image for nothing": ({"type": "generate", "image": IMAGE}, "image", "unknown_parameter"),
    "no image": ({"type": "complete", "keep_rows": 3}, "image", "missing_parameter"),
    "a mask of another size": ({"type": "complete", "image": IMAGE, "mask": OTHER}, "mask", "wrong_size"),
}


def test_an_invalid_message_is_answered_with_an_error_and_the_next_one_is_done(websocket: WebsocketClient) -> None:
    for label, (message, param, code) in MESSAGES.items():
        websocket.socket.send(json.dumps(message) if isinstance(message, dict) else message)
        error = websocket.receive().messages[-1]
        assert (error["type"], error.get("id")) == ("error", None), label
        assert_error(error, param, code)
    assert websocket.paint(type="generate").order[-1] == "done"


@pytest.mark.parametrize("label", JOBS)
def test_an_invalid_job_is_answered_with_an_error_for_its_id(websocket: WebsocketClient, label: str) -> None:
    fields, param, code = JOBS[label]
    (error,) = websocket.paint(id="mine", **fields).messages  # an id is free after its error
    assert (error["type"], error["id"]) == ("error", "mine")
    assert_error(error, param, code)


def test_an_id_in_use_is_refused_and_its_job_continues(websocket: WebsocketClient) -> None:
    websocket.send_together({"type": "generate", "id": "a", "n": 100}, {"type": "generate", "id": "a"})
    while (job := websocket.receive()).order[-1] != "error":
        pass
    assert_error(job.messages[-1], "id", "invalid_value")
    assert websocket.receive_until_finished(1)["a"].images().shape == (100, 35)
