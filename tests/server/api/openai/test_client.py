"""The official OpenAI client, unchanged but for its base_url; and errors as it raises them."""

import io
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from numpy.testing import assert_array_equal
from pydantic import SecretStr

from scanline.model.tasks.offline import paint
from scanline.server.api.payload.sse import PING, send_with_pings
from scanline.server.api.routes import image_events
from scanline.server.settings import Settings
from tests.support.pictures import encode
from tests.support.server.in_process_server import fail_all_jobs, serve_in_process
from tests.support.server.json_requests import FILES, HOLE, IMAGE
from tests.support.server.openai_clients import official as connect
from tests.support.server.openai_clients import pictures
from tests.support.server.running_server import PATIENCE
from tests.support.server.shared_servers import LONG
from tests.support.waiting import wait_for

FILE = FILES["image"]
MASK = FILES["mask"]


@pytest.fixture
def official(server):
    with connect(server.url) as client:
        yield client


def test_models_are_listed_and_retrieved_with_what_is_ours(official):
    assert [model.id for model in official.models.list()] == ["grey"]
    model = official.models.retrieve("grey")
    assert (model.id, model.height, model.width) == ("grey", 7, 5)


def test_images_are_those_of_painting_without_a_server(official, grey):
    alone = paint(grey, 3, seed=7, temperature=0.9).images.reshape(3, 7, 5)
    fields = {"prompt": "", "model": "grey", "n": 3, "size": "5x7", "response_format": "b64_json"}
    raw = official.images.with_raw_response.generate(
        **fields, extra_body={"seed": 7, "temperature": 0.9}
    )
    assert raw.headers["x-scanline-seed"] == "7"
    answer = raw.parse()
    assert_array_equal(pictures(answer), alone)
    assert answer.seed == 7
    assert answer.usage.input_tokens == 0
    assert answer.usage.output_tokens == answer.usage.total_tokens == 105


def test_what_is_none_is_as_if_it_were_not_there(official):
    names = ("model", "n", "size", "response_format", "output_format", "stream", "partial_images")
    harmless = ("background", "quality", "style", "moderation", "output_compression")
    answer = official.images.generate(prompt="", **dict.fromkeys((*names, *harmless)))
    assert (pictures(answer).shape, answer.output_format) == ((1, 7, 5), "png")


def test_a_generation_and_an_edit_are_streamed(official):
    from openai import types

    events = list(official.images.generate(prompt="", stream=True, partial_images=2))
    assert [type(event) for event in events] == [types.ImageGenPartialImageEvent] * 2 + [
        types.ImageGenCompletedEvent
    ]
    assert [event.partial_image_index for event in events[:2]] == [0, 1]
    fields = {"image": FILE, "prompt": "", "extra_body": {"keep_rows": 3}}
    edited = list(official.images.edit(**fields, stream=True, partial_images=3))
    assert [type(event) for event in edited] == [types.ImageEditPartialImageEvent] * 3 + [
        types.ImageEditCompletedEvent
    ]
    assert edited[-1].usage.input_tokens == 15
    assert edited[-1].usage.output_tokens == 20
    for event in events + edited:
        type(event).model_validate(event.model_dump(), strict=True)


# label: what is given as `image`, of the path of a file
UPLOADS = {
    "bytes": lambda path: FILE,
    "a path": lambda path: path,
    "a list of an open file of a misleading name": lambda path: [
        path.rename(path.with_suffix(".jpg")).open("rb")
    ],
    "a name, bytes and a misleading type": lambda path: ("image.png", FILE, "text/plain"),
    "a WebP": lambda path: encode(IMAGE, "WEBP", lossless=True),
}


@pytest.mark.parametrize("label", UPLOADS)
def test_an_image_and_its_mask_are_read(official, tmp_path, label):
    (tmp_path / "image.png").write_bytes(FILE)
    answer = official.images.edit(
        image=UPLOADS[label](tmp_path / "image.png"), mask=io.BytesIO(MASK), prompt=""
    )
    assert_array_equal(pictures(answer)[0, HOLE == 255], IMAGE[HOLE == 255])


def test_pings_are_ignored(in_process_server, monkeypatch):
    """The engine stands still until a ping has been sent; pings are sent often."""
    url, engine = in_process_server
    pinged = threading.Event()

    def often(send, seconds):
        async def watched(message):
            await send(message)
            if message is PING:
                pinged.set()

        return send_with_pings(watched, 0.01)

    monkeypatch.setattr(image_events, "send_with_pings", often)
    process = engine.process.process.pid
    os.kill(process, signal.SIGSTOP)
    try:
        with connect(url) as client:
            stream = client.images.generate(prompt="", stream=True, partial_images=3)
            assert pinged.wait(PATIENCE)
            os.kill(process, signal.SIGCONT)
            assert [event.type.partition(".")[2] for event in stream] == ["partial_image"] * 3 + [
                "completed"
            ]
    finally:
        os.kill(process, signal.SIGCONT)


KEY = "a-key"


@pytest.fixture(scope="module")
def served(grey_directory):
    limits = {"max_images_per_request": LONG, "max_waiting_images": LONG - 4, "client_share": 1}
    limits |= {"slots": 4, "threads": 1, "request_timeout": 1_000_000}
    with serve_in_process(
        Settings(models=(str(grey_directory),), api_keys=(SecretStr(KEY),), **limits)
    ) as served:
        yield served


@pytest.fixture
def client(served):
    with connect(served[0], api_key=KEY) as client:
        yield client


def test_a_failure_of_the_engine_is_raised_and_not_retried(served):
    """By default the client would send it twice more, and fail the engine three times."""
    import openai

    url, engine = served
    sent = []
    watched = openai.DefaultHttpxClient(
        event_hooks={"request": [lambda request: sent.append(request.url.path)]}
    )
    with (
        connect(url, api_key=KEY, max_retries=2, http_client=watched) as client,
        ThreadPoolExecutor() as others,
    ):
        painting = others.submit(client.images.generate, prompt="", n=LONG)
        wait_for(lambda: engine.jobs or painting.done(), "a job")
        fail_all_jobs(engine)
        error = painting.exception(PATIENCE)
    assert isinstance(error, openai.InternalServerError)
    assert (error.status_code, error.param, error.code, error.type) == (
        500,
        None,
        "engine_failed",
        "server_error",
    )
    assert sent == ["/v1/images/generations"]


def test_a_stream_that_fails_raises_its_error(served, client):
    from openai import APIError

    stream = client.images.generate(prompt="", n=LONG, stream=True)
    next(iter(stream))
    fail_all_jobs(served[1])
    with pytest.raises(APIError) as caught:
        list(stream)
    error = caught.value
    assert (error.message, error.type, error.code) == ("It broke.", "server_error", "engine_failed")


def test_a_full_queue_is_an_exception(client):
    from openai import RateLimitError

    with client.images.generate(prompt="", n=LONG, stream=True) as filling:
        next(iter(filling))
        with pytest.raises(RateLimitError) as caught:
            client.images.generate(prompt="", n=LONG // 2)
    assert (caught.value.code, caught.value.type) == ("queue_full", "rate_limit_error")
    assert int(caught.value.response.headers["retry-after"]) > 0
    assert "x-should-retry" not in caught.value.response.headers, "the client retries by itself"
