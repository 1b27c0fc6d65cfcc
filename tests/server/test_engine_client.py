"""The API's side of an engine, without one: what a job keeps, what may wait, what is refused."""

import asyncio
from pathlib import Path

import pytest

from server.engine.client import EngineClient, EngineUnavailableError, QueueFullError
from server.engine.job import EngineFailedError, Job, News
from server.engine.messages import Event, Failed, Finished, Pixels, Ready
from server.engine.process import EngineOptions

IMAGE = bytes(range(100, 135))


@pytest.fixture
def engine() -> EngineClient:
    """Not started; room for 4 images in slots and 6 that wait."""
    engine = EngineClient(EngineOptions(Path("nowhere")), max_waiting_images=6, length=35)
    engine.ready = Ready(parameters=1, slots=4, device="cpu")
    return engine


def news(job: Job) -> list[News]:
    """All that is told of a job in which nothing more happens."""

    async def collect() -> list[News]:
        return [told async for told in job.news()]

    return asyncio.run(collect())


def after(*events: Event, images: int = 1) -> Job:
    """A job that has heard all of `events` before anybody asks."""
    job = Job(0, images, 35)
    for event in events:
        job.receive(event)
    return job


def test_bytes_that_were_not_taken_are_merged_into_one_frame() -> None:
    pieces = [Pixels(0, [(0, first, IMAGE[first : first + 6])]) for first in range(0, 35, 6)]
    assert news(after(*pieces, Finished(0, 0, IMAGE, 2.5))) == [News([(0, 0, IMAGE)], [(0, 2.5)])]


def test_every_image_has_frames_of_its_own() -> None:
    job = after(Finished(0, 1, IMAGE, 2.0), Finished(0, 0, IMAGE[::-1], 3.0), images=2)
    assert news(job) == [News([(0, 0, IMAGE[::-1]), (1, 0, IMAGE)], [(1, 2.0), (0, 3.0)])]


def test_a_frame_begins_where_the_last_one_ended() -> None:
    async def frames() -> list[tuple[int, int, bytes]]:
        job = after(Pixels(0, [(0, 0, IMAGE[:10])]))
        found = []
        async for told in job.news():
            found += told.frames
            if job.left:
                job.receive(Finished(0, 0, IMAGE, 2.5))
        return found

    assert asyncio.run(frames()) == [(0, 0, IMAGE[:10]), (0, 10, IMAGE[10:])]


def test_a_failure_ends_the_news() -> None:
    with pytest.raises(EngineFailedError, match="It broke"):
        news(after(Failed(0, "It broke.")))


def test_a_failure_ends_the_wait() -> None:
    with pytest.raises(EngineFailedError, match="It broke"):
        asyncio.run(after(Failed(0, "It broke.")).wait())


def test_a_finished_job_has_its_images_and_bits() -> None:
    job = after(Finished(0, 0, IMAGE, 2.5))
    asyncio.run(job.wait())
    assert (job.images.tobytes(), job.bits_per_dim.tolist()) == (IMAGE, [2.5])


def test_nothing_is_accepted_while_loading(engine: EngineClient) -> None:
    engine.ready = None
    with pytest.raises(EngineUnavailableError), engine.reserve(1):
        pass


def test_nothing_is_accepted_when_the_engine_is_gone(engine: EngineClient) -> None:
    engine.gone.set()
    with pytest.raises(EngineUnavailableError), engine.reserve(1):
        pass


def test_slots_and_queue_can_be_filled(engine: EngineClient) -> None:
    with engine.reserve(4), engine.reserve(6):
        assert engine.reserved == 10


def test_one_image_more_is_refused(engine: EngineClient) -> None:
    with engine.reserve(10), pytest.raises(QueueFullError), engine.reserve(1):
        pass


def test_a_refused_request_takes_no_room(engine: EngineClient) -> None:
    with pytest.raises(QueueFullError), engine.reserve(11):
        pass
    assert engine.reserved == 0


def test_a_failed_request_gives_its_room_back(engine: EngineClient) -> None:
    with pytest.raises(EngineFailedError), engine.reserve(10):
        raise EngineFailedError
    assert engine.reserved == 0


def test_a_job_is_forgotten_when_its_context_ends(engine: EngineClient) -> None:
    with engine.paint(3, seed=0, temperature=1.0):
        assert list(engine.jobs) == [0]
    assert engine.jobs == {}
