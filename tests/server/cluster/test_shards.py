"""Requests in shards on several replicas: the images of one machine, counted by slots."""

import asyncio
import time
from collections import Counter, deque
from dataclasses import replace

import numpy as np
import pytest

from scanline.model.formats.checkpoint import load_model
from scanline.model.formats.code_file import Codes
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base import messages
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.histogram import Histogram
from scanline.model.sampling.base.messages import (
    Event,
    Failed,
    Finished,
    GenerateRequest,
    Scored,
    ScoreRequest,
)
from scanline.model.sampling.engine import Engine
from scanline.model.tasks.offline import paint_request
from scanline.server.cluster.replica import batches
from scanline.server.engine.remote.fair_queue import ShardedJob
from scanline.server.engine.remote.over_ray import MIN_SHARD, ReplicaPool
from scanline.server.engine.remote.relay_job import RelayJob
from scanline.server.engine.worker.process import EngineOptions
from tests.support import shapes, small_models
from tests.support.cluster.local_replicas import LocalReplicas, local_pool
from tests.support.engine.engine_ticks import run_until_idle
from tests.support.engine.jobs import PaintJob, ScoreJob
from tests.support.server.json_requests import HOLE, IMAGE
from tests.support.shapes import SHAPES
from tests.support.waiting import PATIENCE

PAINTED = bytes(range(100, 135))
PICTURES = (bytes(35), bytes([9] * 35))
HOLES = (bytes([1] * 7 + [0] * 14 + [1] * 14), bytes([1] * 7 + [0] * 28))
MASKS = (bytes([1] * 7 + [0] * 28), bytes([1] * 14 + [0] * 21))


def done(grey: Transformer, *commands: GenerateRequest | ScoreRequest) -> dict[int, bytes]:
    """Run an engine on these commands; return its results by image."""
    generator = Generator(grey, 5, threads=1)
    events = run_until_idle(Engine(generator), *commands)
    generator.close()
    finished = {event.index: event.image for event in events if isinstance(event, Finished)}
    return finished | {event.index: event.bits for event in events if isinstance(event, Scored)}


@pytest.mark.parametrize(
    "whole",
    [
        GenerateRequest(0, 9, seed=7, temperature=0.8),
        GenerateRequest(0, 8, 7, PICTURES, MASKS),
        GenerateRequest(0, 8, 7, PICTURES, HOLES, label=2, particles=3),
        GenerateRequest(
            0, 9, 0, codes=Codes((b"some", b"other", b""), length=4, labelled=(True, False, True))
        ),
        ScoreRequest(0, PICTURES * 4),
        ScoreRequest(0, PICTURES * 4, labels=(0, 1, 2, 3, 3, 2, 1, 0)),
    ],
    ids=["paint", "complete", "particles of a class", "decode", "score", "score classes"],
)
def test_shards_together_are_the_whole_request(whole):
    shapes = small_models.model(SHAPES)
    indices = tuple(whole.indices)
    shards = [whole.shard(indices[5:]), whole.shard(indices[:2]), whole.shard(indices[2:5])]
    assert done(
        shapes, *(replace(shard, id=number) for number, shard in enumerate(shards))
    ) == done(shapes, whole)


def test_a_shard_carries_what_it_needs_and_leaves_the_rest():
    shard = GenerateRequest(0, 8, 7, PICTURES, MASKS).shard((5, 6))
    assert (shard.known, shard.masks) == ((b"", PICTURES[1]), (b"", MASKS[1]))
    assert ScoreRequest(0, PICTURES).shard((0,)).images == (PICTURES[0], b"")
    job = RelayJob(GenerateRequest(0, 9, seed=7).shard((3, 5, 8)), 0, lambda event: None)
    assert job.remainder.only == (3, 5, 8)
    job.receive(Finished(0, 5, PAINTED, 2.5))
    assert job.remainder.only == (3, 8)


def test_images_of_one_code_are_in_one_shard(grey_directory):
    pool = ReplicaPool(LocalReplicas(), 1, EngineOptions(grey_directory))
    sharded = ShardedJob(
        PaintJob(GenerateRequest(0, 80, seed=0, codes=Codes((b"",) * 20, length=4))),
        deque(range(80)),
    )
    assert [len(pool._next_shard(sharded)) for _ in range(2)] == [
        4 * MIN_SHARD,
        4 * (20 - MIN_SHARD),
    ]


def relayed(index: int | None = None) -> tuple[RelayJob, list[Event]]:
    """A job that has the id 5 here and 9 where it came from, and the events that it passes on."""
    events = []
    request = GenerateRequest(9, 2, seed=7)
    return RelayJob(request if index is None else request.shard((index,)), 5, events.append), events


async def sent(job: RelayJob, events: list[Event]) -> list[list[Event]]:
    return [batch async for batch in batches(job, events, lambda: 0.0)]


async def test_a_relay_job_passes_on_all_events_and_its_failure_under_the_senders_id():
    job, events = relayed(1)
    for event in (messages.Pixels(5, [(1, 0, PAINTED[:3])]), Finished(5, 1, PAINTED, 2.5)):
        job.receive(event)
    assert (job.id, job.has_ended, job.images_left) == (5, True, 0)
    assert await sent(job, events) == [
        [messages.Pixels(9, [(1, 0, PAINTED[:3])]), Finished(9, 1, PAINTED, 2.5)]
    ]
    job, events = relayed()
    job.receive(Failed(5, "It broke."))
    assert await sent(job, events) == [[Failed(9, "It broke.")]]


async def test_a_relay_job_that_is_over_does_not_pause():
    job, events = relayed()
    job.receive(messages.Scheduled(5, 0.1))
    found = []
    began = time.monotonic()
    async for batch in batches(job, events, lambda: PATIENCE):
        found.append(len(batch))
        for index in (0, 1) if len(found) == 1 else ():
            job.receive(Finished(5, index, PAINTED, 2.5))
    assert found == [1, 2]
    assert time.monotonic() - began < PATIENCE


def test_statistics_of_engines_are_added():
    one = messages.Stats(images_running=2, steps=5)
    other = messages.Stats(images_running=3, steps=7)
    one.queue.add(0.5)
    other.queue.add(30.5, times=2)
    both = one + other
    assert (both.images_running, both.steps, both.queue.sum) == (5, 12, 61.5)
    assert np.sum(both.queue.counts) == 3
    with pytest.raises(AssertionError):
        Histogram((1.0,)) + Histogram((2.0,))


async def test_a_small_request_of_one_client_overtakes_the_large_one_of_another(grey_directory):
    async with local_pool(grey_directory) as (handle, pool):
        large = PaintJob(GenerateRequest(next(pool.request_ids), 9_000, seed=7, client="key large"))
        small = PaintJob(GenerateRequest(next(pool.request_ids), 4, seed=7, client="key small"))
        score = ScoreJob(ScoreRequest(next(pool.request_ids), (bytes(35),) * 2, client="key score"))
        with pool.run(large), pool.run(small), pool.run(score):
            await asyncio.gather(small.wait(), score.wait())
            assert large.images_left > 4_500
            shards = pool.sharded[large.id].shards
        await asyncio.wait(set(shards))
        await asyncio.sleep(0)  # their callbacks
        assert (pool.outstanding, pool.queue.outstanding, pool.sharded) == (0, Counter(), {})
    assert {command.client for command, _ in handle.sent} == {"key large", "key small", "key score"}


MASKED = {"known": (IMAGE.tobytes(),), "masks": ((HOLE == 255).tobytes(),)}
OVERCOMMITTED = 80  # slots: a quarter more than two replicas have


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return shapes.save(tmp_path_factory.mktemp("models") / "guided", shapes.GUIDED)


@pytest.mark.parametrize(
    ("n", "fields", "slots", "shards"),
    [(10, {"particles": 16}, 16, [1] * 10), (40, {"guidance": 2.5}, 2, [8] * 5)],
    ids=["particles", "guided"],
)
async def test_images_are_those_of_one_machine_and_shards_are_counted_in_slots(
    directory, n, fields, slots, shards
):
    async with local_pool(directory, directory) as (handle, pool):
        assert (pool.slots, pool.max_slots_per_image) == (64, 32)
        request = GenerateRequest(next(pool.request_ids), n, 7, label=3, **MASKED, **fields)
        with pool.reserve(n) as reservation:
            reservation.extend(n * slots - n, "")
            with pool.run(PaintJob(request), reservation) as job:
                assert (pool.reserved_images, pool.outstanding) == (n * slots, OVERCOMMITTED)
                await job.wait()
                await asyncio.gather(*pool.sharded[job.id].shards)
                await asyncio.sleep(0)  # their callbacks
        assert (pool.reserved_images, pool.outstanding, pool.queue.outstanding) == (0, 0, Counter())
    assert {replica for _, replica in handle.sent} == set(handle.replicas)
    assert [len(command.indices) for command, _ in handle.sent] == shards
    law = paint_request(load_model(directory, "cpu"), replace(request, id=0))
    np.testing.assert_array_equal(job.task.images, law.images)
    np.testing.assert_array_equal(job.task.evidence["evidence_bits"], law.evidence_bits)
