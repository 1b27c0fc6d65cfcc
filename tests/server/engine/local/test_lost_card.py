"""An engine of int8 weights that loses its card goes on on the CPU with the same bytes, and says so.
The card is Triton's interpreter.
"""

import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed")

import scanline
from scanline.model.formats.checkpoint import save_model
from scanline.model.sampling.base.messages import GenerateRequest, Pixels
from scanline.server.settings import Settings
from tests.support import small_models
from tests.support.engine.engines import RecordingClient, with_deadline
from tests.support.engine.interpreted import CONFIG, InterpretedOptions
from tests.support.engine.jobs import PaintJob
from tests.support.kernels.native import NATIVE
from tests.support.pictures import painted
from tests.support.server.in_process_server import serve_in_process
from tests.support.server.json_requests import generate
from tests.support.waiting import PATIENCE, wait_for

LINE = r"the engine goes on with the same bytes on cpu kernel \(.*\), no longer on triton \(.*, weights int8\)"
COMPARED = pytest.mark.compared(
    "images in 8 bits", "one CPU", "an engine whose card, Triton's interpreter, is lost"
)
pytestmark = NATIVE


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    directory = tmp_path_factory.mktemp("models") / "tiny"
    save_model(small_models.model(CONFIG), directory)
    return directory


@pytest.fixture(scope="module")
def expected(directory):
    return scanline.load(directory, precision="int8", device="cpu").sample(3, seed=1).array


def assert_said_once(caplog):
    (line,) = [record.message for record in caplog.records if "goes on" in record.message]
    assert re.fullmatch(LINE, line)


@COMPARED
async def test_an_engine_goes_on_with_the_images_that_it_has_begun(
    directory, expected, caplog, compared
):
    options = InterpretedOptions(directory, slots=4, threads=1, precision="int8", backend="cuda")
    engine = await RecordingClient(options).started()
    on_card = engine.ready
    request = GenerateRequest(next(engine.request_ids), 3, seed=1, stream=True)
    with engine.run(PaintJob(request, CONFIG)) as job:
        await engine.wait_for(Pixels)
        engine.signal(signal.SIGKILL)
        await with_deadline(job.wait())
    await engine.close()
    assert (on_card.backend_name, engine.ready.backend_name) == ("cuda", "cpu")
    assert on_card.codings == engine.ready.codings
    assert np.array_equal(job.task.images, expected.reshape(3, -1))
    compared(job.task.images)
    assert_said_once(caplog)


@COMPARED
def test_a_server_answers_what_it_was_asked_for(directory, expected, caplog, compared):
    settings = Settings(
        models=(str(directory),), slots=4, threads=1, precision="int8", backend="cuda"
    )
    with (
        serve_in_process(settings, InterpretedOptions) as (url, engine),
        httpx.Client(base_url=url, timeout=PATIENCE) as client,
        ThreadPoolExecutor(1) as pool,
    ):

        def backend():
            (model,) = client.get("/v1/models").json()["data"]
            return model["backend_name"]

        assert backend() == "cuda"
        answer = pool.submit(generate, client, n=3, seed=1)
        wait_for(lambda: engine.jobs, "a request in the engine")
        os.kill(engine.process.process.pid, signal.SIGKILL)
        images = painted(answer.result())
        assert backend() == "cpu"
    assert np.array_equal(images.reshape(expected.shape), expected)
    compared(images)
    assert_said_once(caplog)
