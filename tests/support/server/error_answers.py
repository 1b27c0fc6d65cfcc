"""Assertions about error responses, which have one shape everywhere."""

import re

import httpx
from websockets.exceptions import InvalidStatus

from scanline.server.engine.counters import REFUSALS

ONE_SENTENCE = re.compile(r"(?:[^.\n]|\.(?! ))*\.")


def answer_of(refused: InvalidStatus) -> httpx.Response:
    """The HTTP response to a websocket handshake that was refused."""
    answer = refused.response
    return httpx.Response(answer.status_code, headers=list(answer.headers.raw_items()), content=bytes(answer.body))


def assert_refused(response: httpx.Response, status: int, param: str | None, code: str) -> None:
    """Fails unless the response is that error, with a message of one sentence that names the parameter."""
    __tracebackhide__ = True
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert_error(response.json(), param, code)


def assert_error(body: dict, param: str | None, code: str) -> None:
    """Fails unless a response body, or a websocket message, is that error."""
    __tracebackhide__ = True
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["param"], error["code"]) == (param, code), error
    assert error["type"] == ("rate_limit_error" if code in REFUSALS else "invalid_request_error")
    assert ONE_SENTENCE.fullmatch(error["message"]), error
    assert param is None or param in error["message"], error
