"""A request on a cluster is painted by one model, also where replicas have different ones."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.sampling.messages import GenerateRequest, Request, ScoreRequest
from scanline.model.tasks.offline import paint
from scanline.server.engine.remote import over_ray
from scanline.server.engine.remote.over_ray import REPLACED, OtherModelError, ReplicaPool, Route
from tests.support import small_models
from tests.support.cluster.local_replicas import local_pool, replica_of
from tests.support.engine.jobs import PaintJob
from tests.support.tiny import GREY


@pytest.fixture(scope="module")
def other_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the same shape with other weights."""
    directory = tmp_path_factory.mktemp("other") / "grey"
    save_model(small_models.model(GREY, seed=99), directory)
    return directory


@pytest.fixture(autouse=True)
def no_long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_ray, "RETRY_PAUSES", (0.0, 0.01, 0.01, 0.05))


def expected(directory: Path, n: int) -> np.ndarray:
    return paint(load_model(directory), n, seed=7, temperature=1.0).images.reshape(n, -1)


def generate(pool: ReplicaPool, n: int, client: str = "") -> PaintJob:
    return PaintJob(GenerateRequest(next(pool.request_ids), n, seed=7, client=client))


def test_all_images_of_a_request_come_from_one_model(grey_directory: Path, other_directory: Path) -> None:
    async def run() -> tuple[np.ndarray, set[str]]:
        async with local_pool(grey_directory, other_directory) as (handle, pool):
            with pool.run(generate(pool, 40)) as job:
                await job.wait()
            assert {len(command.indices) for command, _ in handle.sent} >= {16}
            assert len({replica for _, replica in handle.sent}) == 2  # the other one was asked, and refused
            return job.task.images, {command.digest for command, _ in handle.sent}

    images, digests = asyncio.run(run())
    assert len(digests) == 1
    assert any(np.array_equal(images, expected(directory, 40)) for directory in (grey_directory, other_directory))


def test_shards_that_went_to_two_models_before_either_answered_are_not_mixed(
    grey_directory: Path, other_directory: Path
) -> None:
    async def run() -> np.ndarray:
        async with local_pool(grey_directory, other_directory) as (handle, pool):
            digests = [replica.engine.ready.digest for replica in handle.replicas if replica.engine.ready]
            claims = iter([digests[0], digests[1]])

            class TwoMinds(ReplicaPool):
                """Each of the first two shards is sent to another model, as if a poll came between them."""

                digest = property(lambda self: next(claims, digests[0]))

            handle.route = lambda command: handle.replicas[digests.index(command.digest)]
            pool.__class__ = TwoMinds
            with pool.run(generate(pool, 32)) as job:
                await job.wait()
            assert {command.digest for command, _ in handle.sent[:2]} == set(digests)
            return job.task.images

    images = asyncio.run(run())
    assert any(np.array_equal(images, expected(directory, 32)) for directory in (grey_directory, other_directory))


def test_a_request_whose_model_is_gone_fails_with_a_sentence_and_a_new_one_is_painted(
    grey_directory: Path, other_directory: Path
) -> None:
    async def run() -> tuple[PaintJob, PaintJob]:
        async with local_pool(grey_directory, other_directory) as (handle, pool):
            old, new = handle.replicas
            handle.route = lambda command: new if handle.sent else old  # the first shard is painted by the old model
            with pool.run(generate(pool, 40)) as begun:
                await begun.ended.wait()
            handle.replicas, handle.route = [new], lambda _: new
            pool._take([await new.status("a test", 0)])
            with pool.run(generate(pool, 8)) as later:
                await later.wait()
            return begun, later

    begun, later = asyncio.run(run())
    assert begun.failure
    assert (begun.failure.message, begun.failure.code) == (REPLACED, "model_changed")
    painted = sorted(begun.task.finished)
    assert np.array_equal(begun.task.images[painted], expected(grey_directory, 40)[painted])
    assert np.array_equal(later.task.images, expected(other_directory, 8))


def test_a_request_that_nobody_has_answered_moves_to_the_model_that_is_there(
    grey_directory: Path, other_directory: Path
) -> None:
    async def run() -> np.ndarray:
        async with local_pool(grey_directory, other_directory) as (handle, pool):
            new = handle.replicas[1]
            handle.route = lambda _: new

            async def poll() -> None:
                await asyncio.sleep(0.01)
                pool._take([await new.status("a test", 0)])

            with pool.run(generate(pool, 8)) as job:
                await asyncio.gather(job.wait(), poll())
            return job.task.images

    assert np.array_equal(asyncio.run(run()), expected(other_directory, 8))


@pytest.mark.parametrize("request_", [GenerateRequest(0, 2, 7, digest="0"), ScoreRequest(0, (bytes(35),), digest="0")])
def test_a_replica_refuses_a_shard_of_another_model(grey_directory: Path, request_: Request) -> None:
    async def run() -> None:
        async with replica_of(grey_directory) as replica:
            assert replica.engine.ready
            assert replica.record_routing_stats() == {"digest": replica.engine.ready.digest}
            with pytest.raises(OtherModelError, match="the request's is 0"):
                await anext(replica.run(request_, Route()))

    asyncio.run(run())


def test_a_replica_forgets_ingresses_that_poll_no_more(grey_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with replica_of(grey_directory) as replica:
            monkeypatch.setattr("scanline.server.cluster.replica.INGRESS_TIMEOUT", 0.0)
            for number in range(50):
                await replica.status(f"ingress {number}", 1)
            assert len(replica.in_flight) == 1

    asyncio.run(run())
