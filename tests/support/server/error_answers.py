"""Assertions about error responses, which have one shape everywhere."""

import re

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from tests.support.server.websocket_client import STREAM, connected

ONE_SENTENCE = re.compile(r"(?:[^.\n]|\.(?! ))*\.")
KINDS = {429: "rate_limit_error", 500: "server_error", 503: "server_error", 504: "server_error"}


def refused_handshake(url, path=STREAM, **options):
    """The HTTP response to a websocket handshake, which must be refused."""
    with pytest.raises(InvalidStatus) as caught, connected(url, path, **options):
        pass
    answer = caught.value.response
    return httpx.Response(
        answer.status_code, headers=list(answer.headers.raw_items()), content=bytes(answer.body)
    )


def assert_refused(response, status, param, code):
    """Fails unless the response is that error, with a message of one
    sentence that names the parameter.
    """
    __tracebackhide__ = True
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert_error(response.json(), param, code, status)


def assert_error(body, param, code, status=400):
    """Fails unless a response body, or a websocket message, is the
    error that has this status over HTTP.
    """
    __tracebackhide__ = True
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["param"], error["code"]) == (param, code), error
    assert error["type"] == KINDS.get(status, "invalid_request_error")
    assert ONE_SENTENCE.fullmatch(error["message"]), error
    assert param is None or param in error["message"], error
