"""Replicas that are lost, or fall silent: others paint their shards."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from scanline.model.sampling.base.messages import Event, Request, Stats
from scanline.server.cluster import replica as replica_module
from scanline.server.engine.remote import over_ray
from scanline.server.engine.remote.over_ray import Route
from tests.support.cluster.cluster_service import ALLOWED, Service, offline
from tests.support.cluster.local_replicas import LocalReplica, local_pool, paint_job, painted_alone
from tests.support.pictures import painted
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE, wait_for


def kill_in_work(service: Service, victims: str) -> int:
    """Kill a process of one replica while both replicas are painting; return its id."""
    wait_for(
        lambda: all(one.stats.images_running for one in service.statuses()), "work on both replicas"
    )
    process = getattr(service, victims)()[0]
    os.kill(process, signal.SIGKILL)
    return process


@pytest.mark.parametrize("victims", ["engines", "replicas"])
def test_a_request_survives_a_loss_with_the_same_bytes(service, victims):
    def ask():
        with service.client() as client:
            return painted(
                client.post("/v1/images/generations", json={"n": 400, "seed": 11}).json()
            )

    engines = service.engines()
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(ask)
        killed = kill_in_work(service, victims)
    assert np.array_equal(asked.result(), offline(400, 11))
    service.wait_for_replicas(2)
    assert killed not in (*service.engines(), *service.replicas())
    assert len(set(engines) & set(service.engines())) == 1  # an engine exits with its replica


@pytest.mark.parametrize("victims", ["engines", "replicas"])
def test_a_stream_continues_where_it_was(service, victims):
    with connected(service.url, additional_headers=ALLOWED) as painter:
        painter.send(type="generate", id="a", n=256, seed=12)
        while painter.receive().last != "frame 0":
            pass
        kill_in_work(service, victims)
        job = painter.receive_until_finished(1)["a"]
    assert job.messages[-1]["type"] == "done"
    assert np.array_equal(job.images().reshape(256, 28, 28), offline(256, 12))
    assert sorted(what for what in job.order if what.startswith("image")) == sorted(
        f"image {i}" for i in range(256)
    )
    service.wait_for_replicas(2)


def test_a_replica_whose_engine_does_not_come_back_is_replaced(service):
    doomed = service.replicas()[0]

    def has_ended():
        for engine in service.engines_of(doomed):
            os.kill(engine, signal.SIGKILL)
        return doomed not in service.replicas()

    wait_for(has_ended, "the end of a replica whose engines are killed")
    service.wait_for_replicas(2)
    with service.client() as client:
        answer = client.post("/v1/images/generations", json={"n": 64, "seed": 14})
    assert np.array_equal(painted(answer.json()), offline(64, 14))


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


async def test_others_paint_what_a_silent_replica_has(grey_directory, monkeypatch):
    monkeypatch.setattr(over_ray, "SILENCE_SECONDS", 0.2)
    async with local_pool(grey_directory, grey_directory) as (handle, pool):
        still, other = handle.replicas
        still.__class__ = StandingStill
        handle.route = lambda _: still if len(handle.sent) < 2 else other
        with pool.run(paint_job(pool, 40)) as job:
            await job.wait()
        assert [replica for _, replica in handle.sent[:2]] == [still, still]
        assert not pool.outstanding
    np.testing.assert_array_equal(job.task.images, painted_alone(grey_directory, 40))


async def test_a_waiting_replica_gives_signs(grey_directory, monkeypatch):
    monkeypatch.setattr(replica_module, "SIGN_SECONDS", 0.02)
    async with asyncio.timeout(PATIENCE), local_pool(grey_directory) as (handle, pool):
        (replica,) = handle.replicas
        replica.__class__ = GivingSigns
        engine = replica.engine.process.process.pid
        os.kill(engine, signal.SIGSTOP)
        with pool.run(paint_job(pool, 40)) as job:
            try:
                while replica.signs < 10:
                    await asyncio.sleep(0.01)
            finally:
                os.kill(engine, signal.SIGCONT)
            await job.wait()
    np.testing.assert_array_equal(job.task.images, painted_alone(grey_directory, 40))
    assert len(handle.sent) == len(range(0, 40, 16))


async def test_counters_keep_what_replicas_have_done_that_are_gone(grey_directory):
    async with local_pool(grey_directory, grey_directory) as (handle, pool):
        with pool.run(paint_job(pool, 40)) as job:
            await job.wait()
        first, second = [replace(await each.status("", 0), restarts=3) for each in handle.replicas]
        new = replace(first, replica="new", stats=Stats(), restarts=0)
        pool.update([first, second], 0)
        seen = [(pool.stats.painted_bytes, pool.restarts)]
        for answering in ([second], [first, second], [], [new, second], [new], []):
            pool.update(answering, 0)
            seen.append((pool.stats.painted_bytes, pool.restarts))
    (painted, restarts), *later = seen
    assert painted
    assert restarts == 6
    assert set(later) == {(painted, restarts)}
