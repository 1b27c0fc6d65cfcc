"""A request that kills the engine fails alone; whoever is beside it gets the bytes that he would have got."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.offline import paint
from scanline.server.engine.client.job import EngineFailedError
from tests.support.engines import CRASHING_SEED, OUT_OF_MEMORY_SEED, FaultyOptions, RecordingClient, with_deadline

GIVEN_UP = "The engine died each time it worked on this request"


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def engine(loop: asyncio.Runner, grey_directory: Path) -> Iterator[RecordingClient]:
    options = FaultyOptions(grey_directory, "cpu", slots=4, threads=1)
    engine = loop.run(RecordingClient(options).started())
    yield engine
    loop.run(engine.close())


async def end(engine: RecordingClient, seed: int, images: int = 3) -> np.ndarray:
    with engine.paint(images, seed, temperature=1.0, stream=True) as job:
        await with_deadline(job.wait())
    return job.images


def test_innocent_requests_beside_a_deadly_one_are_painted(
    loop: asyncio.Runner, engine: RecordingClient, grey: Transformer
) -> None:
    async def ends() -> list[np.ndarray | BaseException]:
        ends = (end(engine, seed) for seed in (1, CRASHING_SEED, 2))
        return await asyncio.gather(*ends, return_exceptions=True)

    deaths = engine.restarts
    first, deadly, second = loop.run(ends())
    np.testing.assert_array_equal(first, paint(grey, 3, seed=1).images)
    np.testing.assert_array_equal(second, paint(grey, 3, seed=2).images)
    assert isinstance(deadly, EngineFailedError)
    assert str(deadly).startswith(GIVEN_UP)
    assert engine.restarts <= deaths + 4


def test_one_that_uses_up_memory_fails_after_two_deaths(
    loop: asyncio.Runner, engine: RecordingClient, capfd: pytest.CaptureFixture[str]
) -> None:
    """The second engine, started here, writes to the standard error that is caught here."""
    with pytest.raises(EngineFailedError, match=GIVEN_UP):
        loop.run(end(engine, OUT_OF_MEMORY_SEED))
    told = capfd.readouterr().err
    assert told.count("out of memory: the engine ends itself, for the server to start it anew") == 1
    assert "Traceback" not in told


def test_the_engine_paints_on_after_all_that(loop: asyncio.Runner, engine: RecordingClient, grey: Transformer) -> None:
    np.testing.assert_array_equal(loop.run(end(engine, seed=3)), paint(grey, 3, seed=3).images)
    assert (engine.jobs, engine.quarantine.inside, engine.quarantine.waiting) == ({}, {}, set())
