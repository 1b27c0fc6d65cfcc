"""A request on a cluster is painted by one model, also where replicas have different ones."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from scanline.model.formats.checkpoint import load_model, save_class_head, save_model
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.network.class_reading import class_logits
from scanline.model.sampling.base.messages import GenerateRequest, ScoreRequest
from scanline.model.tasks import classify
from scanline.model.tasks.classify import ClassifyValues
from scanline.server.engine.job import Job
from scanline.server.engine.remote import over_ray
from scanline.server.engine.remote.over_ray import REPLACED, OtherModelError, ReplicaPool, Route
from tests.support import small_models
from tests.support.cluster.local_replicas import local_pool, paint_job, painted_alone, replica_of


@pytest.fixture(scope="module")
def both(tmp_path_factory, grey_directory):
    """Two models of one shape with different weights."""
    directory = tmp_path_factory.mktemp("other") / "grey"
    save_model(small_models.model(small_models.GREY, seed=99), directory)
    return grey_directory, directory


@pytest.fixture(autouse=True)
def no_long_pauses(monkeypatch):
    monkeypatch.setattr(over_ray, "RETRY_PAUSES", (0.0, 0.01, 0.01, 0.05))


async def test_all_images_of_a_request_come_from_one_model(both):
    async with local_pool(*both) as (handle, pool):
        with pool.run(paint_job(pool, 40)) as job:
            await job.wait()
    assert {len(command.indices) for command, _ in handle.sent} >= {16}
    assert len({replica for _, replica in handle.sent}) == 2  # the other one was asked, and refused
    assert len({command.digest for command, _ in handle.sent}) == 1
    assert any(np.array_equal(job.task.images, painted_alone(directory, 40)) for directory in both)


async def test_shards_that_went_to_two_models_before_either_answered_are_not_mixed(both):
    async with local_pool(*both) as (handle, pool):
        digests = [
            replica.engine.ready.digest for replica in handle.replicas if replica.engine.ready
        ]
        claims = iter([digests[0], digests[1]])

        class TwoMinds(ReplicaPool):
            """Each of the first two shards is sent to another
            model, as if a poll came between them.
            """

            digest = property(lambda self: next(claims, digests[0]))

        handle.route = lambda command: handle.replicas[digests.index(command.digest)]
        pool.__class__ = TwoMinds
        with pool.run(paint_job(pool, 32)) as job:
            await job.wait()
        assert {command.digest for command, _ in handle.sent[:2]} == set(digests)
    assert any(np.array_equal(job.task.images, painted_alone(directory, 32)) for directory in both)


async def test_a_request_whose_model_is_gone_fails_and_a_new_one_is_painted(both):
    async with local_pool(*both) as (handle, pool):
        old, new = handle.replicas
        # the first shard is painted by the old model
        handle.route = lambda command: new if handle.sent else old
        with pool.run(paint_job(pool, 40)) as begun:
            await begun.ended.wait()
        handle.replicas = [new]
        handle.route = lambda _: new
        pool._take([await new.status("a test", 0)])
        with pool.run(paint_job(pool, 8)) as later:
            await later.wait()
    assert begun.failure
    assert (begun.failure.message, begun.failure.code) == (REPLACED, "model_changed")
    painted = sorted(begun.task.finished)
    assert np.array_equal(begun.task.images[painted], painted_alone(both[0], 40)[painted])
    assert np.array_equal(later.task.images, painted_alone(both[1], 8))


async def test_a_request_that_nobody_has_answered_moves_to_the_model_that_is_there(both):
    async with local_pool(*both) as (handle, pool):
        new = handle.replicas[1]
        handle.route = lambda _: new

        async def poll():
            await asyncio.sleep(0.01)
            pool._take([await new.status("a test", 0)])

        with pool.run(paint_job(pool, 8)) as job:
            await asyncio.gather(job.wait(), poll())
    assert np.array_equal(job.task.images, painted_alone(both[1], 8))


@pytest.mark.parametrize(
    "request_", [GenerateRequest(0, 2, 7, digest="0"), ScoreRequest(0, (bytes(35),), digest="0")]
)
async def test_a_replica_refuses_a_shard_of_another_model(grey_directory, request_):
    async with replica_of(grey_directory) as replica:
        assert replica.record_routing_stats() == {"digest": replica.engine.ready.digest}
        with pytest.raises(OtherModelError, match="the request's is 0"):
            await anext(replica.run(request_, Route()))


async def test_a_classification_is_read_by_replicas_of_one_class_head(tmp_path):
    config = replace(small_models.GREY, **small_models.CLASSES)
    model = small_models.model(config)
    directories = []
    for seed in (0, 1):
        directories.append(tmp_path / str(seed) / "grey")
        save_model(model, directories[-1])
        save_class_head(small_models.class_head(config, seed), directories[-1])
    images = small_models.images(config, 40)
    request = ScoreRequest(0, tuple(image.tobytes() for image in images), classified=True)
    async with local_pool(*directories) as (handle, pool):
        task = classify.plan(ModelInfo(config, has_class_head=True), ClassifyValues(len(images)))
        with pool.run(Job(replace(request, id=next(pool.request_ids)), task)) as job:
            await job.wait()
        with pool.run(paint_job(pool, 40)) as painting:  # which any of them does
            await painting.wait()
    assert len({replica for _, replica in handle.sent}) == 2
    heads = [load_model(directory) for directory in directories]
    assert any(
        np.array_equal(task.answers[:, :-1], class_logits(head, torch.from_numpy(images)))
        for head in heads
    )
    model.class_head = None
    save_model(model, directories[0])  # without a head: it refuses what was planned with one
    async with replica_of(directories[0]) as replica:
        assert replica.engine.ready is not None
        asked = replace(request, digest=pool.ready.whole_digest)
        with pytest.raises(OtherModelError):
            await anext(replica.run(asked, Route()))


async def test_a_replica_forgets_idle_ingresses(grey_directory, monkeypatch):
    async with replica_of(grey_directory) as replica:
        monkeypatch.setattr("scanline.server.cluster.replica.INGRESS_TIMEOUT", 0.0)
        for number in range(50):
            await replica.status(f"ingress {number}", 1)
        assert len(replica.in_flight) == 1
