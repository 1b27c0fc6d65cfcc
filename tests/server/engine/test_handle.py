"""The engine client without an engine: which requests it accepts and refuses, and when their room is free again."""

from pathlib import Path

import pytest

from scanline.model.sampling.messages import Failed, GenerateRequest, Ready
from scanline.server.engine.handle import EngineUnavailableError
from scanline.server.engine.job import EngineFailedError
from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.engine.queue_limits import QueueFullError, QueueLimits
from scanline.server.engine.worker.process import EngineOptions
from tests.support.engine.jobs import PaintJob


@pytest.fixture
def engine() -> EngineClient:
    """Not started; room for 4 images in slots and 6 that wait."""
    engine = EngineClient(EngineOptions(Path("nowhere")), QueueLimits(max_waiting_images=6))
    engine.ready = Ready(parameters=1, slots=4, device="cpu", state_bytes=1, backend="none")
    return engine


def test_nothing_is_accepted_by_an_engine_that_loads_or_is_given_up(engine: EngineClient) -> None:
    engine.failed.set()
    with pytest.raises(EngineUnavailableError), engine.reserve(1):
        pass
    engine.failed.clear()
    engine.ready = None
    with pytest.raises(EngineUnavailableError), engine.reserve(1):
        pass


def test_slots_and_queue_can_be_filled_and_not_exceeded(engine: EngineClient) -> None:
    with engine.reserve(4), engine.reserve(6):
        assert engine.reserved_images == 10
        with pytest.raises(QueueFullError), engine.reserve(1):
            pass
    with pytest.raises(QueueFullError), engine.reserve(11):
        pass
    assert engine.reserved_images == 0


def test_a_failed_request_gives_its_room_back(engine: EngineClient) -> None:
    with pytest.raises(EngineFailedError), engine.reserve(10):
        raise EngineFailedError("It broke.")
    assert engine.reserved_images == 0


def test_a_job_is_removed_when_its_context_ends(engine: EngineClient) -> None:
    with engine.run(PaintJob(GenerateRequest(0, 3, seed=0))):
        assert list(engine.jobs) == [0]
    assert engine.jobs == {}


def test_a_job_that_is_done_and_not_read_keeps_no_engine(engine: EngineClient) -> None:
    job = PaintJob(GenerateRequest(0, 1, seed=0, snapshot=(0, 0)))
    with engine.reserve(1) as reservation, engine.run(job, reservation):
        assert not engine.unused.is_set()
        assert engine.watching.total() == 1
        job.receive(Failed(0, "It broke."))
        assert engine.unused.is_set()
        assert engine.watching.total() == 0
    assert engine.users == 0
