"""The engine client without an engine: a job that is done is no user of it, read or not."""

from pathlib import Path

from scanline.model.sampling.messages import Failed, GenerateRequest, Ready
from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.engine.queue_limits import QueueLimits
from scanline.server.engine.worker.process import EngineOptions
from tests.support.engine.jobs import PaintJob


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
