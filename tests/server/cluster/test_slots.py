"""Images that take several slots on a cluster: those of one machine, in shards and room counted by slots."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scanline.model.formats.checkpoint import load_model
from scanline.model.sampling.messages import GenerateRequest
from scanline.model.tasks.offline import paint_request
from tests.support import shapes
from tests.support.cluster.local_replicas import local_pool
from tests.support.engine.jobs import PaintJob
from tests.support.server.json_requests import HOLE, IMAGE

MASKED: dict[str, Any] = {"known": (IMAGE.tobytes(),), "masks": ((HOLE == 255).tobytes(),)}
OVERCOMMITTED = 80  # slots: a quarter more than two replicas have


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shapes.save(tmp_path_factory.mktemp("models") / "guided", shapes.GUIDED)


@pytest.mark.parametrize(
    ("n", "fields", "slots", "shards"),
    [(10, {"particles": 16}, 16, [1] * 10), (40, {"guidance": 2.5}, 2, [8] * 5)],
    ids=["particles", "guided"],
)
def test_images_are_those_of_one_machine_and_room_and_shards_are_counted_in_slots(
    directory: Path, n: int, fields: dict[str, Any], slots: int, shards: list[int]
) -> None:
    async def run() -> tuple[PaintJob, list[int]]:
        async with local_pool(directory, directory) as (handle, pool):
            assert (pool.slots, pool.max_slots_per_image) == (64, 32)
            request = GenerateRequest(next(pool.request_ids), n, 7, label=3, **MASKED, **fields)
            with pool.reserve(n) as reservation:
                reservation.extend(n * slots - n)
                with pool.run(PaintJob(request), reservation) as job:
                    assert (pool.reserved_images, pool.outstanding) == (n * slots, OVERCOMMITTED)
                    await job.wait()
                    await asyncio.gather(*pool.sharded[job.id].shards)
                    await asyncio.sleep(0)  # their callbacks
            assert (pool.reserved_images, pool.outstanding, pool.queue.outstanding) == (0, 0, Counter())
            assert {replica for _, replica in handle.sent} == set(handle.replicas)
            return job, [len(command.indices) for command, _ in handle.sent]

    job, found = asyncio.run(run())
    law = paint_request(load_model(directory, "cpu"), GenerateRequest(0, n, 7, label=3, **MASKED, **fields))
    np.testing.assert_array_equal(job.task.images, law.images)
    np.testing.assert_array_equal(job.task.evidence_bits, law.evidence_bits)
    assert found == shards
