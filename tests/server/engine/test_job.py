"""What a job keeps of what its engine says, until somebody asks."""

import asyncio

import pytest

from scanline.model.sampling.messages import Event, Failed, Finished, GenerateRequest, Pixels
from scanline.server.engine.client.job import EngineFailedError, Job, Update

IMAGE = bytes(range(100, 135))


def news(job: Job) -> list[Update]:
    """All that is told of a job in which nothing more happens."""

    async def collect() -> list[Update]:
        return [told async for told in job.updates()]

    return asyncio.run(collect())


def after(*events: Event, images: int = 1) -> Job:
    """A job that has heard all of `events` before anybody asks."""
    job = Job(GenerateRequest(0, images, seed=0), 35)
    for event in events:
        job.receive(event)
    return job


def test_bytes_that_were_not_taken_are_merged_into_one_frame() -> None:
    pieces = [Pixels(0, [(0, first, IMAGE[first : first + 6])]) for first in range(0, 35, 6)]
    assert news(after(*pieces, Finished(0, 0, IMAGE, 2.5))) == [Update([(0, 0, IMAGE)], [(0, 2.5)])]


def test_every_image_has_frames_of_its_own() -> None:
    job = after(Finished(0, 1, IMAGE, 2.0), Finished(0, 0, IMAGE[::-1], 3.0), images=2)
    assert news(job) == [Update([(0, 0, IMAGE[::-1]), (1, 0, IMAGE)], [(1, 2.0), (0, 3.0)])]


def test_a_frame_begins_where_the_last_one_ended() -> None:
    async def frames() -> list[tuple[int, int, bytes]]:
        job = after(Pixels(0, [(0, 0, IMAGE[:10])]))
        found = []
        async for told in job.updates():
            found += told.frames
            if job.images_left:
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
