"""The engine as a process of its own, with the API's side of it in this one."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.messages import CannotLoad, Finished, Pixels, Ready
from scanline.model.sampling.offline import paint
from scanline.server.engine.worker.process import EngineOptions
from tests.support.engines import ENDLESS, RecordingClient
from tests.support.waiting import PATIENCE


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def engine(loop: asyncio.Runner, grey_directory: Path) -> Iterator[RecordingClient]:
    """A living engine of one slot."""
    engine = loop.run(RecordingClient(EngineOptions(grey_directory, "cpu", slots=1, threads=1)).started())
    yield engine
    loop.run(engine.close())


def test_a_started_engine_says_what_it_has(engine: RecordingClient, grey: Transformer) -> None:
    assert engine.ready is not None
    backend = engine.ready.backend
    assert engine.ready == Ready(grey.parameter_count, 1, "cpu", grey.config.state_bytes_per_image, backend)


def test_bytes_are_those_of_this_process(loop: asyncio.Runner, engine: RecordingClient, grey: Transformer) -> None:
    async def painted() -> np.ndarray:
        with engine.paint(3, seed=7, temperature=0.8) as job:
            await job.wait()
            return job.images

    np.testing.assert_array_equal(loop.run(painted()), paint(grey, 3, seed=7, temperature=0.8).images)


def test_a_job_that_is_left_is_painted_no_further(loop: asyncio.Runner, engine: RecordingClient) -> None:
    """In one slot, whatever were left of the first job would take turns with the second."""

    async def first_then_second() -> tuple[int, int]:
        engine.events.clear()
        with engine.paint(ENDLESS, seed=0, temperature=1.0, stream=True) as first:
            await engine.wait_for(Pixels)
        with engine.paint(3, seed=0, temperature=1.0) as second:
            await second.wait()
        return first.request, second.request

    first, second = loop.run(first_then_second())
    told = [event.request for event in engine.events if isinstance(event, Pixels | Finished)]
    assert first not in told[told.index(second) :]


def test_a_wrong_model_is_one_sentence(loop: asyncio.Runner, tmp_path: Path) -> None:
    async def told() -> RecordingClient:
        engine = RecordingClient(EngineOptions(tmp_path))
        engine.start()
        await asyncio.wait_for(engine.gone.wait(), PATIENCE)
        await engine.close()
        return engine

    engine = loop.run(told())
    assert engine.events == [CannotLoad(f"{tmp_path} is not a model directory: config.json is missing")]
    assert engine.load_error is not None
