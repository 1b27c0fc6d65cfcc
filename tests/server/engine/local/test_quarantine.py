"""Requests that kill engines: found, refused, and others answered."""

import asyncio
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scanline.model.network.transformer import Transformer
from scanline.model.tasks.offline import paint
from scanline.server.engine.job import EngineFailedError
from scanline.server.engine.local.quarantine import Quarantine, Verdict
from scanline.server.engine.worker.process import UNRECOVERABLE
from tests.support.engine.engines import CRASHING_SEED, OUT_OF_MEMORY_SEED, RecordingClient, with_deadline


def admitted(*requests: int) -> Quarantine:
    """A quarantine whose requests are all in the engine."""
    quarantine = Quarantine()
    for request in requests:
        quarantine.add(request)
    assert quarantine.admit() == list(requests)
    return quarantine


def crash(quarantine: Quarantine) -> tuple[Verdict, list[int]]:
    """The verdict of a crash, and the requests that the next engine gets."""
    return quarantine.died(), quarantine.admit()


def test_new_requests_wait_for_the_suspects() -> None:
    quarantine = admitted(0, 1)
    crash(quarantine), crash(quarantine)
    quarantine.add(2)
    assert quarantine.admit() == []
    for request in (0, 1):
        quarantine.end(request)
        going = quarantine.admit()
    assert going == [2]


def test_a_request_that_has_finished_an_image_is_no_suspect() -> None:
    quarantine = admitted(0)
    for _ in range(10):
        quarantine.finished(0)
        assert crash(quarantine) == (Verdict(), [0])


def test_a_request_that_came_between_two_crashes_is_no_suspect() -> None:
    quarantine = admitted(0)
    crash(quarantine)
    quarantine.add(1)
    quarantine.admit()
    assert crash(quarantine) == (Verdict(narrowed=True), [0])


def test_no_culprit_is_named_while_a_cancelled_request_may_still_be_in_the_engine() -> None:
    """It was cancelled, which the engine may not have received before it crashed."""
    quarantine = admitted(0, 1)
    crash(quarantine)
    quarantine.end(0, cancelled=True)
    assert crash(quarantine) == (Verdict(narrowed=True), [1])
    assert crash(quarantine) == (Verdict(culprit=1), [])


@given(requests=st.integers(1, 300), crashing=st.sets(st.integers(0, 299), max_size=3), data=st.data())
def test_exactly_the_culprits_are_found_in_few_crashes(requests: int, crashing: set[int], data: st.DataObject) -> None:
    """The engine crashes whenever it has a culprit, after any of the others have ended."""
    quarantine = Quarantine()
    for request in range(requests):
        quarantine.add(request)
    quarantine.admit()
    culprits, crashes = set(), 0
    while quarantine.inside:
        innocent = sorted(quarantine.inside.keys() - crashing)
        crashes_now = len(innocent) < len(quarantine.inside)
        some = data.draw(st.integers(0, len(innocent))) if crashes_now else len(innocent)
        for request in innocent[:some]:
            quarantine.end(request)
        if crashes_now:
            crashes += 1
            culprits |= {quarantine.died().culprit} - {None}
        quarantine.admit()
    assert culprits == {culprit for culprit in crashing if culprit < requests}
    assert (quarantine.waiting, quarantine.crashes) == (set(), {})
    assert crashes <= len(culprits) * (3 + ceil(log2(requests)))


GIVEN_UP = "The engine died each time it worked on this request"


async def end(engine: RecordingClient, seed: int, images: int = 3) -> np.ndarray:
    with engine.paint(images, seed, temperature=1.0, stream=True) as job:
        await with_deadline(job.wait())
    return job.task.images


async def test_others_are_painted_beside_a_crash(faulty_engine: RecordingClient, grey: Transformer) -> None:
    crashes = faulty_engine.restarts
    ends = (end(faulty_engine, seed) for seed in (1, CRASHING_SEED, 2))
    first, crashing, second = await asyncio.gather(*ends, return_exceptions=True)
    for seed, images in ((1, first), (2, second)):
        np.testing.assert_array_equal(images, paint(grey, 3, seed=seed).images)
    assert isinstance(crashing, EngineFailedError)
    assert str(crashing).startswith(GIVEN_UP)
    assert faulty_engine.restarts <= crashes + 4


async def test_exhausted_memory_counts_twice(faulty_engine: RecordingClient, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(EngineFailedError, match=GIVEN_UP):
        await end(faulty_engine, OUT_OF_MEMORY_SEED)
    assert caplog.text.count(f"the engine died (exit status {UNRECOVERABLE})") == 2


async def test_it_paints_afterwards(faulty_engine: RecordingClient, grey: Transformer) -> None:
    np.testing.assert_array_equal(await end(faulty_engine, seed=3), paint(grey, 3, seed=3).images)
    assert (faulty_engine.jobs, faulty_engine.quarantine.inside, faulty_engine.quarantine.waiting) == ({}, {}, set())
