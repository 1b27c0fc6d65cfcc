"""What one request cannot take in fails that request, and no other whose events arrive with it."""

import numpy as np
import pytest

from scanline.model.sampling.base.messages import Finished, GenerateRequest, Scheduled
from scanline.model.tasks.offline import paint
from scanline.server.engine.job import NOT_TAKEN_IN, EngineFailedError
from tests.support.engine.engines import ENDLESS, with_deadline
from tests.support.engine.jobs import PaintJob

ERRORS = [
    ValueError("no such pixel"),
    AssertionError(),
    MemoryError(),
]


class BreakingJob(PaintJob):
    """A job that cannot take in its first image."""

    def __init__(self, number, images, error):
        super().__init__(GenerateRequest(number, images, seed=3))
        self.error = error

    def _pass_on(self, event):
        if isinstance(event, Finished):
            raise self.error


@pytest.mark.parametrize("error", ERRORS, ids=repr)
async def test_a_job_that_cannot_take_in_an_event_fails_alone(faulty_engine, grey, error):
    engine = faulty_engine
    restarts = engine.restarts
    job = BreakingJob(next(engine.request_ids), ENDLESS, error)
    with engine.run(job), engine.paint(3, 7) as other:
        with pytest.raises(EngineFailedError, match=NOT_TAKEN_IN):
            await with_deadline(job.wait())
        # The engine works on it no more: all its slots are free for others.
        await with_deadline(other.wait())
        with engine.paint(4, 8) as later:
            await with_deadline(later.wait())
    expected = paint(grey, 3, seed=7)
    np.testing.assert_array_equal(other.task.images, expected.images)
    assert engine.restarts == restarts
    assert job.id not in engine.quarantine.inside


async def test_events_behind_the_failing_one_are_delivered(faulty_engine):
    """As they arrive, in one list."""
    engine = faulty_engine
    breaking = BreakingJob(next(engine.request_ids), 1, KeyError(3))
    other = PaintJob(GenerateRequest(next(engine.request_ids), 1, 4))
    jobs = [breaking, other]
    for job in jobs:
        engine.jobs[job.id] = job
    events = [Scheduled(breaking.id, 0.1)]
    for job in jobs:
        events.append(Finished(job.id, 0, bytes(35), 1.0))
    try:
        engine._receive(events)
    finally:
        for job in jobs:
            del engine.jobs[job.id]
    assert breaking.failure is not None
    assert other.has_ended
    assert other.failure is None
