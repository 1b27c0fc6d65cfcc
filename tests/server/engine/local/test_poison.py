"""A request that crashes the engine fails by itself; requests in the engine with it get their bytes."""

import asyncio

import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from scanline.server.engine.job import EngineFailedError
from scanline.server.engine.worker.process import UNRECOVERABLE
from tests.support.engine.engines import CRASHING_SEED, OUT_OF_MEMORY_SEED, RecordingClient, with_deadline

GIVEN_UP = "The engine died each time it worked on this request"


async def end(engine: RecordingClient, seed: int, images: int = 3) -> np.ndarray:
    with engine.paint(images, seed, temperature=1.0, stream=True) as job:
        await with_deadline(job.wait())
    return job.task.images


def test_other_requests_are_painted_despite_one_that_crashes_the_engine(
    runner: asyncio.Runner, faulty_engine: RecordingClient, grey: Transformer
) -> None:
    async def ends() -> list[np.ndarray | BaseException]:
        ends = (end(faulty_engine, seed) for seed in (1, CRASHING_SEED, 2))
        return await asyncio.gather(*ends, return_exceptions=True)

    crashes = faulty_engine.restarts
    first, crashing, second = runner.run(ends())
    np.testing.assert_array_equal(first, paint(grey, 3, seed=1).images)
    np.testing.assert_array_equal(second, paint(grey, 3, seed=2).images)
    assert isinstance(crashing, EngineFailedError)
    assert str(crashing).startswith(GIVEN_UP)
    assert faulty_engine.restarts <= crashes + 4


def test_a_request_that_exhausts_memory_fails_after_two_crashes(
    runner: asyncio.Runner, faulty_engine: RecordingClient, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(EngineFailedError, match=GIVEN_UP):
        runner.run(end(faulty_engine, OUT_OF_MEMORY_SEED))
    assert caplog.text.count(f"the engine died (exit status {UNRECOVERABLE})") == 2


def test_the_engine_paints_after_these_crashes(
    runner: asyncio.Runner, faulty_engine: RecordingClient, grey: Transformer
) -> None:
    np.testing.assert_array_equal(runner.run(end(faulty_engine, seed=3)), paint(grey, 3, seed=3).images)
    assert (faulty_engine.jobs, faulty_engine.quarantine.inside, faulty_engine.quarantine.waiting) == ({}, {}, set())
