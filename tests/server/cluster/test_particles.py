"""Completions of several particles on a cluster: the images of one machine, and room counted in slots."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np

from scanline.model.inference import Model
from scanline.model.sampling.messages import GenerateRequest
from scanline.server.engine.remote.over_ray import ReplicaPool
from tests.support.cluster.local_replicas import LocalReplicas, pool_of, replica_of
from tests.support.engine.jobs import PaintJob
from tests.support.pictures import noise

N, PARTICLES = 10, 16
IMAGE = noise(7, 5)
HOLE = np.ones((7, 5), np.bool_)
HOLE[2:5, 1:3] = False


def completions(pool: ReplicaPool, label: int = 0) -> PaintJob:
    known, masks = (IMAGE.tobytes(),), (HOLE.tobytes(),)
    request = GenerateRequest(next(pool.request_ids), N, 7, 1.0, known, masks, label=label, particles=PARTICLES)
    return PaintJob(request)


def test_images_equal_those_of_one_machine_and_shards_are_of_slots(shapes_directory: Path, shapes_model: Model) -> None:
    async def run() -> tuple[PaintJob, list[int]]:
        async with AsyncExitStack() as stack:
            replicas = [await stack.enter_async_context(replica_of(shapes_directory)) for _ in range(2)]
            handle = LocalReplicas(*replicas)
            pool = await stack.enter_async_context(pool_of(handle, shapes_directory))
            assert (pool.slots, pool.max_slots_per_image) == (64, 32)
            with pool.reserve(N) as reservation:
                reservation.extend(N * PARTICLES - N)
                with pool.run(completions(pool, label=3), reservation) as job:
                    assert pool.reserved_images == N * PARTICLES
                    assert pool.outstanding == 80  # slots, of five images: a quarter more than there are
                    await job.wait()
                    shards = pool.sharded[job.id].shards
                    await asyncio.gather(*shards)
                    await asyncio.sleep(0)  # their callbacks
                assert (pool.reserved_images, pool.outstanding, pool.queue.outstanding) == (0, 0, Counter())
            assert {replica for _, replica in handle.sent} == set(replicas)
            return job, [len(command.indices) for command, _ in handle.sent]

    job, shards = asyncio.run(run())
    expected = shapes_model.complete(
        IMAGE, mask=HOLE, n=N, class_name="star", particles=PARTICLES, seed=7, temperature=1.0
    )
    np.testing.assert_array_equal(job.task.images.reshape(N, 7, 5), expected.array)
    np.testing.assert_allclose(job.task.evidence_bits, expected.evidence_bits, rtol=1e-6)
    assert shards == [1] * N
