"""Jobs, and the engine that has them."""

import asyncio
from pathlib import Path

import pytest

from scanline.model.sampling.messages import Failed, Finished, GenerateRequest, Pixels, Ready, Scored, ScoreRequest
from scanline.server.engine.job import EngineFailedError
from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.engine.queue_limits import QueueLimits
from scanline.server.engine.worker.process import EngineOptions
from tests.support.engine.jobs import PaintJob, ScoreJob

IMAGE = bytes(range(100, 135))


def changes(job: PaintJob) -> int:
    """How often a job that receives nothing more changes."""

    async def count() -> int:
        return len([None async for _ in job.changes()])

    return asyncio.run(count())


def test_an_image_that_is_done_stays_as_it_is() -> None:
    job = PaintJob(GenerateRequest(0, 2, seed=0))
    for image in (IMAGE, IMAGE[::-1]):
        job.receive(Finished(0, 1, image, 2.5))
    assert (job.missing, job.task.images[1].tobytes(), job.task.ended) == ({0}, IMAGE, 1)


def test_it_changes_with_each_event_and_a_last_time_at_its_end() -> None:
    async def found() -> list[bytes]:
        job, seen = PaintJob(GenerateRequest(0, 1, seed=0)), []
        job.receive(Pixels(0, [(0, 0, IMAGE[:10])]))
        async for _ in job.changes():
            seen += [data for _, _, data in job.task.take().frames]
            if job.images_left:
                job.receive(Finished(0, 0, IMAGE, 2.5))
        return seen

    assert asyncio.run(found()) == [IMAGE[:10], IMAGE[10:]]
    job = PaintJob(GenerateRequest(0, 1, seed=0))
    job.receive(Finished(0, 0, IMAGE, 2.5))
    assert changes(job) == 1


def test_a_failure_ends_the_changes_and_the_wait() -> None:
    job = PaintJob(GenerateRequest(0, 1, seed=0))
    job.receive(Failed(0, "It broke."))
    with pytest.raises(EngineFailedError, match="It broke"):
        changes(job)
    with pytest.raises(EngineFailedError, match="It broke"):
        asyncio.run(job.wait())


def test_it_counts_the_slots_of_its_images_until_they_are_done() -> None:
    front, hole = bytes([1] * 7 + [0] * 28), bytes([1] * 7 + [0] * 7 + [1] * 21)
    job = PaintJob(GenerateRequest(0, 4, 7, 1.0, (IMAGE, IMAGE), (front, hole), particles=6))
    left = [job.slots_left]
    for index in (0, 2, 2, 3, 1):
        job.receive(Finished(0, index, IMAGE, 2.5, 80.5, 3.25))
        left.append(job.slots_left)
    assert left == [14, 13, 7, 7, 1, 0]


def test_a_guided_image_counts_as_two_slots_until_it_is_done() -> None:
    job = PaintJob(GenerateRequest(0, 3, 7, label=1, guidance=2.0))
    left = [job.slots_left]
    for index in (2, 2, 0, 1):
        job.receive(Finished(0, index, IMAGE, 2.5))
        left.append(job.slots_left)
    assert left == [6, 4, 4, 2, 0]


def test_it_holds_what_its_task_holds() -> None:
    job = ScoreJob(ScoreRequest(0, (IMAGE,) * 2, labels=(1, 2)))
    job.receive(Scored(0, 1, bytes(8 * 35)))
    assert (job.held_bytes, job.slots_left, job.has_ended) == (280, 1, False)


def test_a_job_that_is_done_and_not_read_keeps_no_engine() -> None:
    engine = EngineClient(EngineOptions(Path("nowhere")), QueueLimits(max_waiting_images=6))
    engine.ready = Ready(parameters=1, slots=4, device="cpu", state_bytes=1, backend="none")
    job = PaintJob(GenerateRequest(0, 1, seed=0, snapshot=(0, 0)))
    with engine.reserve(1) as reservation, engine.run(job, reservation):
        assert not engine.unused.is_set()
        assert engine.watching.total() == 1
        job.receive(Failed(0, "It broke."))
        assert engine.unused.is_set()
        assert engine.watching.total() == 0
    assert (engine.users, engine.jobs, engine.reserved_images) == (0, {}, 0)
