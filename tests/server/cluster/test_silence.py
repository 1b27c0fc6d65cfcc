"""A replica that sends nothing is replaced by another one; one that is only slow is not."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from scanline.model.formats.checkpoint import load_model
from scanline.model.sampling.messages import Event, GenerateRequest, Request
from scanline.model.tasks.offline import paint
from scanline.server.cluster import replica as replica_module
from scanline.server.engine.remote import over_ray
from scanline.server.engine.remote.over_ray import ReplicaPool, Route
from tests.support.cluster.local_replicas import LocalReplica, local_pool
from tests.support.engine.jobs import PaintJob
from tests.support.waiting import PATIENCE

N = 40


class StandingStill(LocalReplica):
    """Stands still at its first shard, as a process that is stopped or cut off does."""

    async def run(self, command: Request, route: Route) -> AsyncIterator[list[Event]]:
        await asyncio.Event().wait()
        yield []


class GivingSigns(LocalReplica):
    """Counts the messages in which there is nothing."""

    signs = 0

    async def run(self, command: Request, route: Route) -> AsyncIterator[list[Event]]:
        async for events in super().run(command, route):
            self.signs += not events
            yield events


def generate(pool: ReplicaPool) -> PaintJob:
    return PaintJob(GenerateRequest(next(pool.request_ids), N, seed=7))


def expected(directory: Path) -> np.ndarray:
    return paint(load_model(directory), N, seed=7).images.reshape(N, -1)


def test_shards_of_a_silent_replica_are_painted_by_others(
    grey_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_ray, "SILENCE_SECONDS", 0.2)

    async def run() -> np.ndarray:
        async with local_pool(grey_directory, grey_directory) as (handle, pool):
            still, other = handle.replicas
            still.__class__ = StandingStill
            handle.route = lambda _: still if len(handle.sent) < 2 else other
            with pool.run(generate(pool)) as job:
                await job.wait()
            assert [replica for _, replica in handle.sent[:2]] == [still, still]
            assert not pool.outstanding
            return job.task.images

    np.testing.assert_array_equal(asyncio.run(run()), expected(grey_directory))


def test_a_replica_that_waits_for_its_engine_gives_signs(grey_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_module, "SIGN_SECONDS", 0.02)

    async def run() -> tuple[np.ndarray, int]:
        async with local_pool(grey_directory) as (handle, pool):
            (replica,) = handle.replicas
            replica.__class__ = GivingSigns
            assert replica.engine.process
            engine = replica.engine.process.process.pid
            assert engine
            os.kill(engine, signal.SIGSTOP)
            with pool.run(generate(pool)) as job:
                try:
                    while replica.signs < 10:  # type: ignore[attr-defined]
                        await asyncio.sleep(0.01)
                finally:
                    os.kill(engine, signal.SIGCONT)
                await job.wait()
            return job.task.images, len(handle.sent)

    images, shards = asyncio.run(asyncio.wait_for(run(), PATIENCE))
    np.testing.assert_array_equal(images, expected(grey_directory))
    assert shards == len(range(0, N, 16))
