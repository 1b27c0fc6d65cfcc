"""Invalid input to the JSON routes and unknown paths: each a 4xx error of the one shape."""

import json

import httpx
import pytest

from tests.support.server.error_answers import assert_refused

URL = "/v1/images/generations"

FIELDS = {  # label: fields, the parameter that is named, the code
    "no images": ({"n": 0}, "n", "invalid_value"),
    "too many images": ({"n": 2001}, "n", "invalid_value"),
    "n as text": ({"n": "4"}, "n", "invalid_value"),
    "a negative seed": ({"seed": -2}, "seed", "invalid_value"),
    "a seed of 64 bits": ({"seed": 2**63}, "seed", "invalid_value"),
    "temperature 0": ({"temperature": 0}, "temperature", "invalid_value"),
    "temperature 3": ({"temperature": 3}, "temperature", "invalid_value"),
    "temperature NaN": ({"temperature": float("nan")}, "temperature", "invalid_value"),
    "guidance of a model without classes": ({"guidance": 2}, "guidance", "guidance_not_supported"),
    "a misspelt field": ({"temprature": 0.9}, "temprature", "unknown_parameter"),
    "a prompt": ({"prompt": "a cat"}, "prompt", "prompt_not_supported"),
    "another size": ({"size": "28x28"}, "size", "invalid_value"),
    "a size without numbers": ({"size": "large", "size_policy": "resize"}, "size", "invalid_value"),
    "a size of no pixels": ({"size": "0x5", "size_policy": "resize"}, "size", "invalid_value"),
    "too large a size": ({"size": "2049x5", "size_policy": "resize"}, "size", "invalid_value"),
    "too many pixels": ({"size": "2048x2048", "n": 5, "size_policy": "resize"}, "size", "invalid_value"),
    "an unknown kind of answer": ({"response_format": "bytes"}, "response_format", "invalid_value"),
    "a lossy format": ({"output_format": "jpeg"}, "output_format", "invalid_value"),
    "partial images without a stream": ({"partial_images": 2}, "partial_images", "invalid_value"),
    "too many partial images": ({"stream": True, "partial_images": 4}, "partial_images", "invalid_value"),
    "a background": ({"background": "transparent"}, "background", "unsupported_parameter"),
    "a field of edits": ({"keep_rows": 4}, "keep_rows", "unknown_parameter"),
}

BODIES = {  # label: a body that is not a JSON object, the code
    "nothing": (b"", "invalid_json"),
    "not JSON": (b"n=4&seed=7", "invalid_json"),
    "a list": (b'[{"n": 4}]', "invalid_body"),
    "text": (b'"n"', "invalid_body"),
    "a key that is no text": (b'{"\\ud800": 1}', "invalid_json"),
    "not UTF-8": (b'{"n": "\xff"}', "invalid_json"),
    "nested too deep": (b"[" * 1000 + b"]" * 1000, "invalid_json"),
    "too many brackets": (b"[" * 100_000, "json_too_complex"),
    "too many fields": (b"{" + b'"a":1,' * 100_000 + b'"a":1}', "json_too_complex"),
    "too many escapes": (b'{"user":"' + b"\\/" * 100_000 + b'"}', "json_too_complex"),
    "a number without end": (b'{"n": ' + b"9" * 10_000 + b"}", "invalid_json"),
}


@pytest.mark.parametrize("label", FIELDS)
def test_the_invalid_field_is_named(client: httpx.Client, label: str) -> None:
    fields, param, code = FIELDS[label]
    response = client.post(URL, content=json.dumps(fields), headers={"content-type": "application/json"})
    assert_refused(response, 400, param, code)


def test_the_limits_of_numbers_are_those_of_the_command_line(client: httpx.Client) -> None:
    message = client.post(URL, json={"temperature": 1e-7}).json()["error"]["message"]
    assert message == "temperature must be from 0.000001 to 2, not 1e-07."


@pytest.mark.parametrize("label", BODIES)
def test_a_body_that_is_no_object_is_refused(client: httpx.Client, label: str) -> None:
    content, code = BODIES[label]
    for url in (URL, "/v1/images/edits", "/v1/images/likelihoods"):
        response = client.post(url, content=content, headers={"content-type": "application/json"})
        assert_refused(response, 400, None, code)


@pytest.mark.parametrize("model", ["mnist", "", "../grey", "GREY", "grey "])
def test_an_unknown_model_is_not_found(client: httpx.Client, model: str) -> None:
    assert_refused(client.post(URL, json={"model": model}), 404, "model", "model_not_found")


@pytest.mark.parametrize("url", [URL, "/v1/images/edits", "/v1/images/likelihoods"])
def test_a_body_that_is_too_large_is_refused(colour_client: httpx.Client, url: str) -> None:
    response = colour_client.post(url, json={"user": "x" * 100_000})
    assert_refused(response, 413, None, "body_too_large")
    # in chunks, without a content length
    chunks = (b'{"user": "', *[b"x" * 1000] * 200, b'"}')
    response = colour_client.post(url, content=iter(chunks), headers={"content-type": "application/json"})
    assert_refused(response, 413, None, "body_too_large")
