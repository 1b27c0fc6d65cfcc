"""An engine that dies is restarted, its jobs are replayed, and requests that
kill engines are found and refused.
"""

import asyncio
import errno
import os
import signal
import threading
from collections import Counter
from dataclasses import dataclass
from math import ceil, log2
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import Event, Finished, Scored
from scanline.model.tasks.offline import paint
from scanline.server.engine.job import EngineFailedError
from scanline.server.engine.local import engine_process
from scanline.server.engine.local.quarantine import Quarantine, Verdict
from scanline.server.engine.worker.process import UNRECOVERABLE, EngineOptions
from tests.support.engine import engines
from tests.support.engine.engines import RecordingClient, with_deadline
from tests.support.engine.jobs import PaintJob, ScoreJob

IMAGES = 10  # of each request, in four slots
KNOWN = np.random.default_rng(0).integers(0, 256, 35, np.uint8)
SCORED = np.random.default_rng(1).integers(0, 256, (IMAGES, 35), np.uint8)
HOLE = np.arange(35) % 5 < 2  # bytes known after unknown ones
COMPLETED = {"known": (KNOWN.tobytes(),), "masks": (HOLE.tobytes(),)}
PARTICLES = 3  # of a completion


def send_at_third_call(engine, number):
    """Let the engine send itself a signal, once."""
    engine.options.signal_file.write_text(str(int(number)))


@dataclass
class Replayed:
    """The results of one request of each kind whose engine was killed at its third call."""

    painted: PaintJob
    streamed: list[bytes]
    ended: list[int]
    scored: ScoreJob
    events: list[Event]
    restarts: int


@pytest.fixture(scope="module")
def replayed(runner, faulty_engine):
    send_at_third_call(faulty_engine, signal.SIGKILL)

    async def streamed():
        streamed = [b""] * IMAGES
        ended = []
        with faulty_engine.paint(IMAGES, 7, **COMPLETED, stream=True, particles=PARTICLES) as job:
            async for _ in job.changes():
                part = job.task.take()
                for index, first, data in part.frames:
                    assert first == len(streamed[index])
                    streamed[index] += data
                ended += part.finished
        return streamed, ended

    async def scored():
        with faulty_engine.score(tuple(image.tobytes() for image in SCORED)) as job:
            await with_deadline(job.wait())
        return job

    async def all_three():
        faulty_engine.events.clear()
        restarts = faulty_engine.restarts
        paint, stream, score = await asyncio.gather(
            painted(faulty_engine, IMAGES, seed=7), streamed(), scored()
        )
        return Replayed(
            paint, *stream, score, faulty_engine.events.copy(), faulty_engine.restarts - restarts
        )

    return runner.run(all_three())


async def painted(engine, images, seed):
    with engine.reserve(images), engine.paint(images, seed, temperature=0.8) as job:
        await with_deadline(job.wait())
    return job


def assert_equals_offline(grey, job, seed):
    __tracebackhide__ = True
    expected = paint(grey, len(job.task.images), seed=seed, temperature=0.8)
    assert_array_equal(job.task.images, expected.images)
    assert_array_equal(job.task.bits_per_dim, expected.bits_per_dim)


@pytest.mark.compared("images and streams", "no fault", "an engine that was killed and replayed")
def test_bytes_equal_those_without_a_restart(replayed, grey, compared):
    assert replayed.restarts == 1
    assert_equals_offline(grey, replayed.painted, seed=7)
    compared(replayed.painted.task.images)


@pytest.mark.compared("images and streams", "no fault", "an engine that was killed and replayed")
def test_a_stream_has_every_byte_once(replayed, grey, compared):
    expected = paint(grey, IMAGES, seed=7, known=KNOWN, mask=HOLE, particles=PARTICLES).images
    assert_array_equal([np.frombuffer(image, np.uint8) for image in replayed.streamed], expected)
    compared(expected)
    assert sorted(replayed.ended) == list(range(IMAGES))


def test_scores_equal_those_without_a_restart(replayed, grey):
    generator = Generator(grey, 1, threads=1)
    alone = [generator.score(image[None])[0] for image in SCORED]
    generator.close()
    assert_array_equal([replayed.scored.task.bits[index] for index in range(IMAGES)], alone)


def test_finished_images_are_not_painted_again(replayed):
    done = Counter(
        (event.request, event.index)
        for event in replayed.events
        if isinstance(event, Finished | Scored)
    )
    assert set(done.values()) == {1}
    assert len(done) == 3 * IMAGES


async def test_an_engine_that_hangs_is_killed_and_its_jobs_are_replayed(
    faulty_engine, grey, caplog
):
    send_at_third_call(faulty_engine, signal.SIGSTOP)
    assert_equals_offline(grey, await painted(faulty_engine, IMAGES, seed=7), seed=7)
    assert f"silent for {faulty_engine.options.timeout:g} seconds, then killed" in caplog.text


async def test_jobs_of_a_tick_in_which_the_device_fails_are_replayed(faulty_engine, grey, caplog):
    send_at_third_call(faulty_engine, engines.DEVICE_FAILS)
    assert_equals_offline(grey, await painted(faulty_engine, IMAGES, seed=7), seed=7)
    send_at_third_call(faulty_engine, engines.DEVICE_FAILS)
    with faulty_engine.score((KNOWN.tobytes(),) * 3) as job:
        await with_deadline(job.wait())
    assert caplog.text.count(f"the engine died (exit status {UNRECOVERABLE})") == 2


async def test_an_engine_that_cannot_be_started_is_tried_again(faulty_engine, grey, monkeypatch):
    def fail_once(process):
        monkeypatch.undo()
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    restarts = faulty_engine.restarts
    monkeypatch.setattr(engine_process, "start", fail_once)
    send_at_third_call(faulty_engine, signal.SIGKILL)
    assert_equals_offline(grey, await painted(faulty_engine, IMAGES, seed=7), seed=7)
    assert faulty_engine.restarts == restarts + 2


async def test_an_idle_engine_sends_heartbeats(faulty_engine):
    restarts = faulty_engine.restarts
    for _ in range(2):
        faulty_engine.received.clear()
        await with_deadline(faulty_engine.received.wait())
    assert faulty_engine.restarts == restarts


async def test_a_restart_leaks_nothing(faulty_engine, grey):
    def counted():
        threads = [
            thread.name for thread in threading.enumerate() if not thread.name.startswith("asyncio")
        ]
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return len(os.listdir("/proc/self/fd")), sorted(threads), len(children)

    before = counted()
    with faulty_engine.paint(engines.ENDLESS, seed=0, temperature=1.0):
        faulty_engine.signal(signal.SIGKILL)
        while faulty_engine.is_ready:
            await asyncio.sleep(0)
        painting = asyncio.create_task(painted(faulty_engine, 2, seed=5))
        await asyncio.sleep(0)
    faulty_engine.events.clear()
    job = await painting
    assert sum(isinstance(event, Finished) for event in faulty_engine.events) == 2
    assert_equals_offline(grey, job, seed=5)
    assert counted() == before
    assert (
        faulty_engine.jobs,
        faulty_engine.quarantine.inside,
        faulty_engine.quarantine.waiting,
    ) == ({}, {}, set())


async def test_an_engine_that_cannot_be_restarted_is_given_up(grey_directory, caplog, monkeypatch):
    """The server's copy of its model is damaged after the first load."""
    monkeypatch.setattr("scanline.server.engine.local.engine_client.RESTART_DELAYS", (0.0, 0.0))
    engine = await RecordingClient(
        EngineOptions(grey_directory, "cpu", slots=1, threads=1)
    ).started()
    os.truncate(engine.directory / "model.safetensors", 100)
    with engine.paint(engines.ENDLESS, seed=0, temperature=1.0) as job:
        engine.signal(signal.SIGKILL)
        with pytest.raises(EngineFailedError, match="stopped while it worked on this request"):
            await with_deadline(job.wait())
    await engine.close()
    assert engine.failed.is_set()
    assert str(engine.directory) in engine.load_error, "not the model's own directory"
    assert "2 crashes in a row without a finished image: it is not started again" in caplog.text


def admitted(*requests):
    """A quarantine whose requests are all in the engine."""
    quarantine = Quarantine()
    for request in requests:
        quarantine.add(request)
    assert quarantine.admit() == list(requests)
    return quarantine


def crash(quarantine):
    """The verdict of a crash, and the requests that the next engine gets."""
    return quarantine.died(), quarantine.admit()


async def test_an_engine_that_is_closed_before_its_next_process_has_none(grey_directory):
    options = EngineOptions(grey_directory, "cpu", slots=1, threads=1)
    engine = await RecordingClient(options).started()
    engine.keeping.cancel()  # from here on, the copy is kept for the next process alone
    is_kept = threading.Event()
    may_go_on = threading.Event()
    keep = engine.copy.keep

    def slow_keep():
        is_kept.set()
        may_go_on.wait()
        keep()

    engine.copy.keep = slow_keep
    engine.signal(signal.SIGKILL)
    await asyncio.to_thread(is_kept.wait)
    closed = asyncio.create_task(engine.close())
    await engine.closing.wait()
    may_go_on.set()
    await with_deadline(closed)


def test_new_requests_wait_for_the_suspects():
    quarantine = admitted(0, 1)
    crash(quarantine), crash(quarantine)
    quarantine.add(2)
    assert quarantine.admit() == []
    for request in (0, 1):
        quarantine.end(request)
        going = quarantine.admit()
    assert going == [2]


def test_a_request_that_has_finished_an_image_is_no_suspect():
    quarantine = admitted(0)
    for _ in range(10):
        quarantine.finished(0)
        assert crash(quarantine) == (Verdict(), [0])


def test_a_request_that_came_between_two_crashes_is_no_suspect():
    quarantine = admitted(0)
    crash(quarantine)
    quarantine.add(1)
    quarantine.admit()
    assert crash(quarantine) == (Verdict(narrowed=True), [0])


def test_no_culprit_is_named_while_a_cancelled_request_may_still_be_in_the_engine():
    """It was cancelled, which the engine may not have received before it crashed."""
    quarantine = admitted(0, 1)
    crash(quarantine)
    quarantine.end(0, cancelled=True)
    assert crash(quarantine) == (Verdict(narrowed=True), [1])
    assert crash(quarantine) == (Verdict(culprit=1), [])


@given(
    requests=st.integers(1, 300), crashing=st.sets(st.integers(0, 299), max_size=3), data=st.data()
)
def test_exactly_the_culprits_are_found_in_few_crashes(requests, crashing, data):
    """The engine crashes whenever it has a culprit, after any of the others have ended."""
    quarantine = Quarantine()
    for request in range(requests):
        quarantine.add(request)
    quarantine.admit()
    culprits = set()
    crashes = 0
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


async def end(engine, seed, images=3):
    with engine.paint(images, seed, temperature=1.0, stream=True) as job:
        await with_deadline(job.wait())
    return job.task.images


async def test_others_are_painted_beside_a_crash(faulty_engine, grey):
    crashes = faulty_engine.restarts
    ends = (end(faulty_engine, seed) for seed in (1, engines.CRASHING_SEED, 2))
    first, crashing, second = await asyncio.gather(*ends, return_exceptions=True)
    for seed, images in ((1, first), (2, second)):
        assert_array_equal(images, paint(grey, 3, seed=seed).images)
    assert isinstance(crashing, EngineFailedError)
    assert str(crashing).startswith(GIVEN_UP)
    assert faulty_engine.restarts <= crashes + 4


async def test_exhausted_memory_counts_twice(faulty_engine, caplog):
    with pytest.raises(EngineFailedError, match=GIVEN_UP):
        await end(faulty_engine, engines.OUT_OF_MEMORY_SEED)
    assert caplog.text.count(f"the engine died (exit status {UNRECOVERABLE})") == 2
