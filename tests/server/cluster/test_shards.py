"""Requests cut into shards, the relay of their events, and the sum of several engines' statistics."""

import asyncio
import time
from dataclasses import replace

import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import (
    Event,
    Failed,
    Finished,
    GenerateRequest,
    Pixels,
    Scheduled,
    Scored,
    ScoreRequest,
    Stats,
)
from scanline.model.sampling.stats.histogram import Histogram
from scanline.server.cluster.replica import RelayJob
from tests.support import small_models
from tests.support.engine.engine_ticks import run_until_idle
from tests.support.shapes import SHAPES
from tests.support.waiting import PATIENCE

IMAGE = bytes(range(100, 135))
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
        GenerateRequest(0, 8, 7, 1.0, PICTURES, MASKS),
        GenerateRequest(0, 8, 7, 1.0, PICTURES, HOLES, label=2, particles=3),
        ScoreRequest(0, PICTURES * 4),
        ScoreRequest(0, PICTURES * 4, labels=(0, 1, 2, 3, 3, 2, 1, 0)),
    ],
    ids=["paint", "complete", "particles of a class", "score", "score classes"],
)
def test_shards_together_are_the_whole_request(whole: GenerateRequest | ScoreRequest) -> None:
    shapes = small_models.model(SHAPES)
    indices = tuple(whole.indices)
    shards = [whole.shard(indices[5:]), whole.shard(indices[:2]), whole.shard(indices[2:5])]
    assert done(shapes, *(replace(shard, id=number) for number, shard in enumerate(shards))) == done(shapes, whole)


def test_a_shard_carries_what_it_needs_and_leaves_the_rest() -> None:
    shard = GenerateRequest(0, 8, 7, 1.0, PICTURES, MASKS).shard((5, 6))
    assert (shard.known, shard.masks) == ((b"", PICTURES[1]), (b"", MASKS[1]))
    assert ScoreRequest(0, PICTURES).shard((0,)).images == (PICTURES[0], b"")
    shard = GenerateRequest(0, 8, 7, 1.0, PICTURES, HOLES, label=2, particles=3).shard((1, 6))
    assert (shard.label, [shard.particles_of(index) for index in shard.indices]) == (2, [3, 1])
    job = RelayJob(GenerateRequest(0, 9, seed=7).shard((3, 5, 8)))
    assert job.remainder.only == (3, 5, 8)
    job.receive(Finished(0, 5, IMAGE, 2.5))
    assert job.remainder.only == (3, 8)


def passed_on(job: RelayJob) -> list[list[Event]]:
    async def collect() -> list[list[Event]]:
        return [events async for events in job.events()]

    return asyncio.run(collect())


def test_a_relay_job_passes_on_all_events_and_its_failure() -> None:
    job = RelayJob(GenerateRequest(0, 2, seed=7).shard((1,)))
    events: list[Event] = [Pixels(0, [(1, 0, IMAGE[:3])]), Finished(0, 1, IMAGE, 2.5)]
    for event in events:
        job.receive(event)
    assert (job.has_ended, job.images_left, passed_on(job)) == (True, 0, [events])
    job = RelayJob(GenerateRequest(0, 2, seed=7))
    job.receive(Failed(0, "It broke."))
    assert passed_on(job) == [[Failed(0, "It broke.")]]


def test_a_relay_job_that_is_over_does_not_pause() -> None:
    async def collect() -> list[list[Event]]:
        job = RelayJob(GenerateRequest(0, 2, seed=7))
        scheduled, finished = Scheduled(0, 0.1), [Finished(0, index, IMAGE, 2.5) for index in (0, 1)]
        job.receive(scheduled)
        found = []
        async for events in job.events(lambda: PATIENCE):
            found.append(events)
            for event in finished if len(found) == 1 else ():
                job.receive(event)
        return found

    began = time.monotonic()
    assert [len(events) for events in asyncio.run(collect())] == [1, 2]
    assert time.monotonic() - began < PATIENCE


def test_statistics_of_engines_are_added() -> None:
    one, other = Stats(images_running=2, steps=5), Stats(images_running=3, steps=7)
    one.queue.add(0.5)
    other.queue.add(30.5, times=2)
    both = one + other
    assert (both.images_running, both.steps, both.queue.sum) == (5, 12, 61.5)
    assert np.sum(both.queue.counts) == 3
    with pytest.raises(AssertionError):
        Histogram((1.0,)) + Histogram((2.0,))
