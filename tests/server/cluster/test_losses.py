"""Replicas that are lost, or fall silent: others paint their shards."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scanline.model.formats.checkpoint import load_model
from scanline.model.sampling.messages import Event, GenerateRequest, Request, Stats
from scanline.model.tasks.offline import paint
from scanline.server.cluster import replica as replica_module
from scanline.server.engine.remote import over_ray
from scanline.server.engine.remote.over_ray import ReplicaPool, Route
from tests.support.cluster.cluster_service import ALLOWED, Service, kill, offline
from tests.support.cluster.local_replicas import LocalReplica, local_pool
from tests.support.engine.jobs import PaintJob
from tests.support.pictures import painted
from tests.support.server.websocket_client import connected
from tests.support.waiting import PATIENCE

Victim = Callable[[Service], int]

VICTIMS: list[Victim] = [lambda service: service.engines()[0], lambda service: service.replicas()[0]]
NAMES = ["engine", "replica"]


def kill_in_work(service: Service, victim: Victim) -> int:
    """Kill a process of one replica while both replicas are painting; return its id."""
    deadline = time.monotonic() + PATIENCE
    while not all(one.stats.images_running for one in service.statuses()):
        assert time.monotonic() < deadline, service.statuses()
    process = victim(service)
    kill(process)
    return process


@pytest.mark.parametrize("victim", VICTIMS, ids=NAMES)
def test_a_request_survives_a_loss_with_the_same_bytes(service: Service, victim: Victim) -> None:
    answers: list[np.ndarray] = []

    def ask() -> None:
        with service.client() as client:
            answers.append(painted(client.post("/v1/images/generations", json={"n": 400, "seed": 11}).json()))

    asking = threading.Thread(target=ask)
    asking.start()
    killed = kill_in_work(service, victim)
    asking.join(PATIENCE)
    assert np.array_equal(answers[0], offline(400, 11))
    service.wait_for_replicas(2)
    assert killed not in (*service.engines(), *service.replicas())


@pytest.mark.parametrize("victim", VICTIMS, ids=NAMES)
def test_a_stream_continues_where_it_was(service: Service, victim: Victim) -> None:
    with connected(service.url, additional_headers=ALLOWED) as painter:
        painter.send(type="generate", id="a", n=256, seed=12)
        while painter.receive().order[-1] != "frame 0":
            pass
        kill_in_work(service, victim)
        job = painter.receive_until_finished(1)["a"]
    assert job.messages[-1]["type"] == "done"
    assert np.array_equal(job.images().reshape(256, 28, 28), offline(256, 12))
    assert sorted(what for what in job.order if what.startswith("image")) == sorted(f"image {i}" for i in range(256))
    service.wait_for_replicas(2)


def test_an_engine_exits_with_its_replica(service: Service) -> None:
    replica = service.replicas()[0]
    engines = service.engines()
    kill(replica)
    service.wait_for_replicas(2)
    assert len(set(engines) & set(service.engines())) == 1


def test_a_replica_whose_engine_does_not_come_back_is_replaced(service: Service) -> None:
    doomed = service.replicas()[0]
    deadline = time.monotonic() + PATIENCE
    while doomed in service.replicas():
        for engine in service.engines_of(doomed):
            kill(engine)
        time.sleep(0.05)
        assert time.monotonic() < deadline
    service.wait_for_replicas(2)
    with service.client() as client:
        answer = client.post("/v1/images/generations", json={"n": 64, "seed": 14})
    assert np.array_equal(painted(answer.json()), offline(64, 14))


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


def test_counters_keep_what_replicas_have_done_that_are_gone(grey_directory: Path) -> None:
    async def run() -> list[tuple[int, int]]:
        async with local_pool(grey_directory, grey_directory) as (handle, pool):
            with pool.run(generate(pool)) as job:
                await job.wait()
            first, second = [replace(await each.status("", 0), restarts=3) for each in handle.replicas]
            new = replace(first, replica="new", stats=Stats(), restarts=0)
            pool.update([first, second], 0)
            seen = [(pool.stats.painted_bytes, pool.restarts)]
            for answering in ([second], [first, second], [], [new, second], [new], []):
                pool.update(answering, 0)
                seen.append((pool.stats.painted_bytes, pool.restarts))
            return seen

    (painted, restarts), *later = asyncio.run(run())
    assert painted
    assert restarts == 6
    assert set(later) == {(painted, restarts)}
