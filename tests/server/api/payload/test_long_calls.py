"""Every call made for a client that takes long, or is native: bounded, in a
thread, in small pieces, and charged.

What is long on the event loop is in test_hostile_input.py.
"""

import asyncio
import re
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from scanline.kernels.codec.coder import Encoder
from scanline.model.formats.code_file import Codes, code_file
from scanline.model.images import pictures
from scanline.model.sampling.base.messages import GenerateRequest
from scanline.model.tasks.paint import PaintTask
from scanline.model.tasks.score import ScoreTask
from scanline.server.api import jobs
from scanline.server.api.payload import answers, image_output, json_object, offload, uploads
from scanline.server.api.payload.offload import CHUNK_SECONDS, INLINE_BYTES
from scanline.server.api.routes import image_events, steps
from scanline.server.api.routes.images import _shown_images
from tests.support import small_models
from tests.support.pictures import encode, noise, text
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[4]
PICTURE = text(encode(noise(7, 5)))
MANY = {"image": [PICTURE] * 999}
CODES = code_file(np.zeros((999, 1), np.uint8), Codes((b"a",) * 999), (7, 5, 1), 32 * "0", "exact")


def large(width, **fields):
    return {"size": f"{width}x2048", "size_policy": "resize", **fields}


def edit(width):
    return {
        "image": text(encode(np.zeros((2048, width), np.uint8))),
        "keep_rows": 3,
        "size_policy": "resize",
    }


# Of each call: where it is, its name there, a route, fields that lead to it, and those that its
# bound refuses before; {} where the bounds of bodies and images are enough.
CALLS = {
    "parse JSON": (json_object, "from_json", "likelihoods", MANY, {"user": "A" * 1_000_000}),
    "decode base64": (uploads, "from_base64", "likelihoods", MANY, {"image": "A" * 400_000}),
    "decode a picture": (pictures, "upright", "edits", edit(2048), edit(2049)),
    "read a code": (
        jobs,
        "read",
        "decodings",
        {"code": text(CODES.to_bytes())},
        {"code": "A" * 4_000_000},
    ),
    "write a picture": (
        image_output.pictures,
        "encode_image",
        "generations",
        large(2048),
        large(2049),
    ),
    "write a sheet": (
        answers.pictures,
        "encode_sheet",
        "generations",
        large(2048, n=2),
        large(2048, n=3),
    ),
    "write a film": (
        answers,
        "encode_film",
        "generations",
        {"scale": 16, "frames": 99},
        {"scale": 16, "n": 999},
    ),
    "encode a code": (Encoder, "add", "codes", MANY, {}),
    "sum up scores": (ScoreTask, "result", "likelihoods", MANY, {}),
    "write a state": (steps, "b64encode", "steps", {"image": PICTURE, "layer": 0, "head": 0}, {}),
    "begin partial images": (
        image_events,
        "PartialImages",
        "generations",
        {"stream": True, "partial_images": 3},
        {},
    ),
}
ACCEPT = {"write a sheet": "image/webp", "write a film": "image/gif"}
THREADS = {"scanline-payload_0", "scanline-long_0"}


def charged():
    """The seconds of the threads, of all clients."""
    return sum(sum(thread.seconds.values()) for thread in (offload._worker, offload._long))


@pytest.mark.parametrize("name", CALLS)
def test_a_call(name, in_process_server, monkeypatch):
    owner, attribute, route, fields, beyond = CALLS[name]
    call = getattr(owner, attribute)
    made_by = []

    def recorded(*arguments, **options):
        made_by.append(threading.current_thread().name)
        return call(*arguments, **options)

    monkeypatch.setattr(owner, attribute, recorded)
    headers = {"accept": ACCEPT.get(name, "*/*")}
    before = charged()
    with httpx.Client(
        base_url=f"{in_process_server[0]}/v1/images", timeout=PATIENCE, headers=headers
    ) as client:
        if beyond:
            assert client.post(route, json=beyond).status_code == 400
            assert made_by == []
        status = client.post(route, json=fields).status_code
    # the codes are of no model that is here
    assert status == (400 if route == "decodings" else 200)
    assert made_by
    assert set(made_by) <= THREADS
    assert charged() > before


def test_texts_of_a_form_that_may_be_base64_are_decoded_in_the_thread(
    in_process_server, monkeypatch
):
    """A form of 200 texts of percent signs held the event loop for 5 s."""
    made_by = set()
    seconds = []

    def recorded(text, param):
        made_by.add(threading.current_thread().name)
        began = time.thread_time()
        try:
            return pictures.from_base64(text, param)
        finally:
            seconds.append(time.thread_time() - began)

    monkeypatch.setattr(uploads, "from_base64", recorded)
    hostile = b"data:;base64,".ljust(uploads.MAX_TEXT_BYTES, b"%")
    files = [("image", ("a.png", hostile, "image/png"))] * 40
    answer = httpx.post(
        f"{in_process_server[0]}/v1/images/likelihoods", files=files, timeout=PATIENCE
    )
    assert answer.json()["error"]["code"] == "invalid_image"
    assert made_by == {"scanline-payload_0"}
    assert len(seconds) == 40
    assert min(seconds) < CHUNK_SECONDS


def test_the_list_of_calls_is_whole():
    api = ROOT / "server/api"
    found = {
        path: re.findall(r"offload\.(?:run|in_chunks|collect)|to_thread", path.read_text())
        for path in api.rglob("*.py")
    }
    assert {str(path.relative_to(api)): len(calls) for path, calls in found.items() if calls} == {
        "payload/answers.py": 4,
        "payload/json_object.py": 1,
        "payload/pictures.py": 2,
        "payload/uploads.py": 2,
        "routes/codes.py": 2,
        "routes/image_events.py": 3,
        "routes/likelihoods.py": 1,
        "routes/steps.py": 1,
        "routes/images.py": 1,  # a copy, which releases the lock
        # the last compresses our own files, each once
        "jobs.py": 2,
        "routes/page.py": 1,
        # a picture of one size, of 32 images at most
        "routes/preview.py": 1,
    }, "a call off the loop that is new: add it above, with its bound, and measure its longest"


def test_the_event_loop_runs_during_work_on_many_bytes():
    async def act():
        has_gone_on = threading.Event()
        asyncio.get_running_loop().call_soon(has_gone_on.set)
        return await offload.collect(
            (has_gone_on.wait(PATIENCE) for _ in range(1)), INLINE_BYTES + 1
        )

    assert asyncio.run(act()) == [True]


def test_work_on_few_bytes_begins_on_the_event_loop_and_goes_on_in_the_thread():
    def steps():
        yield threading.get_ident()
        time.sleep(2 * CHUNK_SECONDS)
        yield threading.get_ident()
        yield threading.get_ident()

    first, second, third = asyncio.run(offload.collect(steps(), INLINE_BYTES))
    assert first == second == threading.get_ident() != third


def test_a_request_waits_only_for_pieces_of_another():
    """Each takes turns in the thread, so a short one ends long
    before a long one that came first.
    """
    done = []

    def long():
        for step in range(200):
            time.sleep(CHUNK_SECONDS)
            done.append(step)
            yield

    async def act():
        task = asyncio.create_task(offload.collect(long(), INLINE_BYTES + 1))
        while not done:
            await asyncio.sleep(0)
        await offload.run(lambda: None)
        assert not task.done()
        task.cancel()
        return len(done)

    assert asyncio.run(act()) < 20


def test_the_client_with_the_least_time_is_next_and_cancelled_work_is_not_begun():
    thread = offload.FairThread("fair")
    begun = threading.Event()
    may_end = threading.Event()
    done = []
    thread.submit("busy", lambda: (begun.set(), may_end.wait(PATIENCE)))
    assert begun.wait(PATIENCE)
    waiting = [thread.submit("busy", lambda: done.append("busy")) for _ in range(3)]
    assert thread.submit("busy", lambda: done.append("cancelled")).cancel()
    waiting.append(thread.submit("other", lambda: done.append("other")))
    may_end.set()
    for future in waiting:
        future.result(PATIENCE)
    assert done == ["other", "busy", "busy", "busy"]


def test_the_images_of_an_answer_are_copied_only_where_some_are_left_out():
    task = PaintTask(GenerateRequest(0, 3, 0), small_models.config())
    task.images[:] = np.arange(3)[:, None]
    assert asyncio.run(_shown_images(task)) is task.images
    task.shown = {2: 0, 0: 1}
    assert asyncio.run(_shown_images(task))[:, 0].tolist() == [2, 0]
