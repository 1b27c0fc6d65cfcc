"""The websocket: jobs and their messages, errors, cancelling, and the pace of frames."""

import asyncio
import json
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from scanline.server.api import rate_limit
from scanline.server.api.rate_limit import FrameThrottle
from scanline.server.engine.local.engine_client import EngineClient
from tests.support.pictures import encode, noise, text
from tests.support.server.error_answers import assert_error
from tests.support.server.running_server import Server
from tests.support.server.shared_servers import LONG
from tests.support.server.websocket_client import WebsocketClient, connected


def test_a_job_begins_with_its_description_and_ends_with_done(websocket: WebsocketClient) -> None:
    job = websocket.paint(type="generate", id="a", n=2, seed=7)
    size = {"height": 7, "width": 5, "channels": 1, "temperature": 1, "guidance": 1}
    assert job.messages[0] == {"type": "started", "id": "a", "job": 0, "model": "grey", "n": 2, "seed": 7, **size}
    assert job.messages[-1] == {"type": "done", "id": "a"}
    assert (job.order[0], job.order[-1]) == ("started", "done")


def test_all_frames_of_an_image_come_before_its_message(websocket: WebsocketClient) -> None:
    job = websocket.paint(type="generate", n=70, seed=7, temperature=0.8)
    last = {what: place for place, what in enumerate(job.order)}
    assert all(last[f"frame {index}"] < last[f"image {index}"] for index in range(70))


def test_default_ids_are_unused_ones_of_the_connection(websocket: WebsocketClient, server: Server) -> None:
    websocket.send_together({"type": "generate", "id": 0, "n": 200}, {"type": "generate"}, {"type": "generate"})
    assert set(websocket.receive_until_finished(3)) == {0, 1, 2}
    first, second = (websocket.paint(type="generate", id="a").messages[0] for _ in range(2))
    assert (first["job"], second["job"]) == (3, 4), "an id that is done can be used again"
    with connected(server.url) as other:
        assert other.paint(type="generate").messages[0]["id"] == 0


def test_jobs_run_concurrently(websocket: WebsocketClient) -> None:
    websocket.send_together({"type": "generate", "id": "long", "n": 1000}, {"type": "generate", "id": "short"})
    jobs = websocket.receive_until_finished(1)
    assert jobs["short"].order[-1] == "done"
    assert jobs["long"].order[-1] != "done"


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


CANCELLED = {"type": "done", "id": "a", "cancelled": True}


@pytest.fixture
def limited(limited_server: Server) -> Iterator[WebsocketClient]:
    with connected(limited_server.url) as limited:
        yield limited


def test_a_cancelled_job_is_done_early_and_sends_nothing_more(limited: WebsocketClient) -> None:
    limited.send(type="generate", id="a", n=LONG, seed=1)
    limited.receive()
    limited.send(type="generate", id="b", n=40, seed=2)
    limited.send(type="cancel", id="a")
    job = limited.receive_until_finished(2)["a"]
    assert limited.jobs["b"].images().shape == (40, 35)
    assert job.messages[-1] == CANCELLED
    assert job.order[-1] == "done"


def test_a_job_can_be_cancelled_before_it_began(limited: WebsocketClient) -> None:
    for number in range(10):  # its id can be used again
        limited.send_together({"type": "generate", "id": "a"}, {"type": "cancel", "id": "a"})
        assert limited.receive_until_finished(1)["a"].messages == [CANCELLED] * (number + 1)
    assert limited.paint(type="generate", id="a").order[-1] == "done"


@pytest.mark.parametrize(
    ("rate", "frames", "expected"),
    [(1000, [200], [0.2]), (1000, [100, 100, 100], [0.1, 0.2, 0.3]), (None, [10**9], [])],
)
def test_frames_of_all_websockets_are_followed_by_a_pause(
    monkeypatch: pytest.MonkeyPatch, rate: int | None, frames: list[int], expected: list[float]
) -> None:
    """The clock stands still, and pauses are recorded instead of slept."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def send() -> None:
        throttle = FrameThrottle(rate)
        for count in frames:
            await throttle.pause(count)

    monkeypatch.setattr(rate_limit, "time", SimpleNamespace(monotonic=lambda: 7.0))
    monkeypatch.setattr(rate_limit, "asyncio", SimpleNamespace(sleep=sleep))
    asyncio.run(send())
    assert pauses == pytest.approx(expected)


def test_each_frame_of_a_websocket_is_counted(
    in_process_server: tuple[str, EngineClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    async def pause(throttle: FrameThrottle, frames: int) -> None:
        counted.append(frames)

    monkeypatch.setattr(FrameThrottle, "pause", pause)
    with connected(in_process_server[0]) as websocket:
        assert len(websocket.paint(type="generate", n=200).frames) == sum(counted)
