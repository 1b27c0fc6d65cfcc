"""Errors as the official OpenAI client raises them: class, status, message, param, code, type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.settings import Settings
from tests.support.server.in_process_server import fail_all_jobs, serve_in_process
from tests.support.server.json_requests import FILES
from tests.support.server.openai_clients import official
from tests.support.server.shared_servers import LONG
from tests.support.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    import openai

KEY = "a-key"
Served = tuple[str, EngineClient]
Call = Callable[[Any], Any]


def edit(**fields: Any) -> Call:
    given = {"prompt": "", "image": FILES["image"], "extra_body": {"keep_rows": 3}}
    return lambda client: client.images.edit(**{**given, **fields})


REFUSALS: dict[str, tuple[Call, str, int, str | None, str]] = {  # a call; the exception's class, status, param, code
    "a field of fields": (edit(extra_body={"a": {"b": 1}}), "BadRequestError", 400, "a[b]", "unknown_parameter"),
    "an unknown model": (edit(model="dall-e-2"), "NotFoundError", 404, "model", "model_not_found"),
    "a large body": (edit(image=bytes(30_000)), "APIStatusError", 413, None, "body_too_large"),
    "an unknown key": (
        lambda client: client.with_options(api_key="another").images.generate(prompt=""),
        *("AuthenticationError", 401, None, "invalid_api_key"),
    ),
    "another of the official addresses": (
        lambda client: client.embeddings.create(model="grey", input="a cat"),
        *("NotFoundError", 404, None, "not_found"),
    ),
    "a wrong method": (lambda client: client.models.delete("grey"), "APIStatusError", 405, None, "method_not_allowed"),
}


@pytest.fixture(scope="module")
def served(grey_directory: Path) -> Iterator[Served]:
    limits = {"max_images_per_request": LONG, "max_waiting_images": LONG - 4, "client_share": 1}
    limits |= {"slots": 4, "threads": 1, "max_body_bytes": 20_000, "request_timeout": 1_000_000}
    with serve_in_process(Settings(models=(str(grey_directory),), api_keys=(SecretStr(KEY),), **limits)) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with official(served[0], api_key=KEY) as client:
        yield client


@pytest.mark.parametrize("label", REFUSALS)
def test_each_error_is_an_exception(client: openai.OpenAI, label: str) -> None:
    from openai import APIStatusError

    call, kind, *expected = REFUSALS[label]
    with pytest.raises(APIStatusError) as caught:
        call(client)
    error = caught.value
    assert type(error).__name__ == kind
    found = (error.status_code, error.param, error.code, error.type)
    assert found == (*expected, "invalid_request_error")
    assert error.request_id == error.response.headers["x-request-id"] != ""
    assert error.body["message"] in error.message  # type: ignore[index]


def test_a_failure_of_the_engine_is_raised_and_not_retried(served: Served) -> None:
    """By default the client would send it twice more, and fail the engine three times."""
    import openai

    url, engine = served
    sent: list[str] = []
    watched = openai.DefaultHttpxClient(event_hooks={"request": [lambda request: sent.append(request.url.path)]})
    with official(url, api_key=KEY, max_retries=2, http_client=watched) as client, ThreadPoolExecutor() as others:
        painting = others.submit(client.images.generate, prompt="", n=LONG)
        wait_for(lambda: engine.jobs or painting.done(), "a job")
        fail_all_jobs(engine)
        error = painting.exception(PATIENCE)
    assert isinstance(error, openai.InternalServerError)
    assert (error.status_code, error.param, error.code, error.type) == (500, None, "engine_failed", "server_error")
    assert sent == ["/v1/images/generations"]


def test_a_stream_that_fails_raises_its_error(served: Served, client: openai.OpenAI) -> None:
    from openai import APIError

    stream = client.images.generate(prompt="", n=LONG, stream=True)
    next(iter(stream))
    fail_all_jobs(served[1])
    with pytest.raises(APIError) as caught:
        list(stream)
    error = caught.value
    assert (error.message, error.type, error.code) == ("It broke.", "server_error", "engine_failed")


def test_a_full_queue_is_an_exception(client: openai.OpenAI) -> None:
    from openai import RateLimitError

    with client.images.generate(prompt="", n=LONG, stream=True) as filling:
        next(iter(filling))
        with pytest.raises(RateLimitError) as caught:
            client.images.generate(prompt="", n=LONG // 2)
    assert (caught.value.code, caught.value.type) == ("queue_full", "rate_limit_error")
    assert int(caught.value.response.headers["retry-after"]) > 0
    assert "x-should-retry" not in caught.value.response.headers, "the client retries by itself"
