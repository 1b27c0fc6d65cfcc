"""A job merges the events of its engine until they are taken."""

import asyncio

import numpy as np
import pytest

from scanline.model.sampling.messages import Event, Failed, Finished, GenerateRequest, Pixels, Scored, ScoreRequest
from scanline.server.engine.job import EngineFailedError, Job, TotalsJob, Update

IMAGE = bytes(range(100, 135))


def news(job: Job) -> list[Update]:
    """All updates of a job that receives nothing more."""

    async def collect() -> list[Update]:
        return [update async for update in job.updates()]

    return asyncio.run(collect())


def after(*events: Event, images: int = 1) -> Job:
    """A job that has received all of `events` before any update is taken."""
    job = Job(GenerateRequest(0, images, seed=0), 35)
    for event in events:
        job.receive(event)
    return job


def test_bytes_that_were_not_taken_are_merged_into_one_frame_of_their_image() -> None:
    pieces = [Pixels(0, [(0, first, IMAGE[first : first + 6])]) for first in range(0, 35, 6)]
    assert news(after(*pieces, Finished(0, 0, IMAGE, 2.5))) == [Update([(0, 0, IMAGE)], [0])]
    job = after(Finished(0, 1, IMAGE, 2.0), Finished(0, 0, IMAGE[::-1], 3.0), images=2)
    assert news(job) == [Update([(0, 0, IMAGE[::-1]), (1, 0, IMAGE)], [1, 0])]


def test_a_frame_begins_where_the_last_one_ended() -> None:
    async def frames() -> list[tuple[int, int, bytes]]:
        job = after(Pixels(0, [(0, 0, IMAGE[:10])]))
        found = []
        async for update in job.updates():
            found += update.frames
            if job.images_left:
                job.receive(Finished(0, 0, IMAGE, 2.5))
        return found

    assert asyncio.run(frames()) == [(0, 0, IMAGE[:10]), (0, 10, IMAGE[10:])]


def test_provisional_bytes_are_here_but_in_no_frame() -> None:
    async def updates() -> list[tuple[Update, bytes]]:
        job, found = after(Pixels(0, [(0, 0, IMAGE[:10])], [(0, 10, b"later")])), []
        async for update in job.updates():
            found.append((update, job.images[0, :15].tobytes()))
            if job.images_left:
                job.receive(Pixels(0, [], [(0, 10, b"other")]) if len(found) == 1 else Finished(0, 0, IMAGE, 2.5))
        return found

    assert asyncio.run(updates()) == [
        (Update([(0, 0, IMAGE[:10])], [], provisional=[0]), IMAGE[:10] + b"later"),
        (Update([], [], provisional=[0]), IMAGE[:10] + b"other"),
        (Update([(0, 10, IMAGE[10:])], [0]), IMAGE[:15]),
    ]


def test_provisional_bytes_of_an_image_that_is_painted_anew_change_no_final_byte() -> None:
    job = after(Pixels(0, [(0, 0, IMAGE[:20])]), Pixels(0, [(0, 0, IMAGE[:4])], [(0, 4, bytes(20))]))
    assert job.images[0].tobytes() == IMAGE[:20] + bytes(15)
    assert (job.painted.tolist(), job.provisional.tolist(), job.changing) == ([20], [24], {0})
    job.receive(Finished(0, 0, IMAGE, 2.5))
    job.receive(Pixels(0, [], [(0, 4, bytes(31))]))
    assert job.images[0].tobytes() == IMAGE


def test_the_images_that_are_wanted_are_known_by_their_rows() -> None:
    job = Job(GenerateRequest(0, 9, seed=0, only=(3, 7)), 35)
    job.receive(Pixels(0, [(7, 0, IMAGE[:10])]))
    job.receive(Finished(0, 7, IMAGE, 2.5, label=2))
    assert (job.images[1].tobytes(), job.bits_per_dim[1], job.labels, job.missing) == (IMAGE, 2.5, {1: 2}, {3})
    job.receive(Finished(0, 3, IMAGE[::-1], 3.0))
    assert news(job) == [Update([(0, 0, IMAGE[::-1]), (1, 0, IMAGE)], [1, 0])]


def test_a_failure_ends_the_updates_and_the_wait() -> None:
    with pytest.raises(EngineFailedError, match="It broke"):
        news(after(Failed(0, "It broke.")))
    with pytest.raises(EngineFailedError, match="It broke"):
        asyncio.run(after(Failed(0, "It broke.")).wait())


def test_a_finished_job_has_its_images_and_bits() -> None:
    job = after(Finished(0, 0, IMAGE, 2.5))
    asyncio.run(job.wait())
    assert (job.images.tobytes(), job.bits_per_dim.tolist()) == (IMAGE, [2.5])


def test_a_job_counts_the_slots_of_its_images_until_they_are_done() -> None:
    front, hole = bytes([1] * 7 + [0] * 28), bytes([1] * 7 + [0] * 7 + [1] * 21)
    job = Job(GenerateRequest(0, 4, 7, 1.0, (IMAGE, IMAGE), (front, hole), particles=6), 35)
    left = [job.slots_left]
    for index in (0, 2, 2, 3, 1):
        job.receive(Finished(0, index, IMAGE, 2.5, 80.5, 3.25))
        left.append(job.slots_left)
    assert left == [14, 13, 7, 7, 1, 0]
    assert (job.evidence_bits.tolist(), job.effective_particles.tolist()) == ([80.5] * 4, [3.25] * 4)
    assert np.isnan(after(Finished(0, 0, IMAGE, 2.5)).evidence_bits).all()


def test_a_guided_image_counts_as_two_slots_until_it_is_done() -> None:
    job = Job(GenerateRequest(0, 3, 7, label=1, guidance=2.0), 35)
    left = [job.slots_left]
    for index in (2, 2, 0, 1):
        job.receive(Finished(0, index, IMAGE, 2.5))
        left.append(job.slots_left)
    assert left == [6, 4, 4, 2, 0]


def test_a_job_of_totals_keeps_the_bits_of_whole_images() -> None:
    job = TotalsJob(ScoreRequest(0, (IMAGE,) * 2, labels=(1, 2)))
    job.receive(Scored(0, 1, np.full(35, 2.0).tobytes()))
    job.receive(Scored(0, 0, np.array([np.inf] + [1.0] * 34).tobytes()))
    asyncio.run(job.wait())
    assert (job.totals.tolist(), job.slots_left, job.unread_bytes) == ([np.inf, 70.0], 0, 0)


def test_frames_that_are_not_taken_yet_are_counted_as_coalesced() -> None:
    first = [Pixels(0, [(0, position, b"a")]) for position in (0, 1, 2)]
    assert after(*first, Pixels(0, [(1, 0, b"a")]), images=2).coalesced == 2
    assert after(Pixels(0, [(0, 0, IMAGE)]), Finished(0, 0, IMAGE, np.pi)).coalesced == 0
