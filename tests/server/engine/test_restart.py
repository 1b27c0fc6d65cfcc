"""An engine that dies is started anew, and what it had in work is replayed: the same bytes, each told once."""

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Event, Finished, Scored
from scanline.model.sampling.offline import paint
from scanline.server.engine.client.engine_client import EngineClient
from scanline.server.engine.client.job import EngineFailedError, Job
from scanline.server.engine.worker.process import EngineOptions
from tests.support.engines import ENDLESS, FaultyOptions, RecordingClient, with_deadline

IMAGES = 10  # of each request, in four slots
TIMEOUT = 10  # seconds, which no tick takes on a machine however busy
KNOWN = np.random.default_rng(0).integers(0, 256, 35, np.uint8)
SCORED = np.random.default_rng(1).integers(0, 256, (IMAGES, 35), np.uint8)
HOLE = (np.arange(35) < 1) | (np.arange(35) > 33)  # bytes known after unknown ones


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def signal_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the number of the signal is written that the engine is to die of."""
    return tmp_path_factory.mktemp("engine") / "fate"


@pytest.fixture(scope="module")
def living(loop: asyncio.Runner, grey_directory: Path, signal_file: Path) -> Iterator[RecordingClient]:
    options = FaultyOptions(grey_directory, "cpu", slots=4, threads=1, timeout=TIMEOUT, signal_file=signal_file)
    engine = loop.run(RecordingClient(options).started())
    yield engine
    loop.run(engine.close())


@dataclass
class Replayed:
    """What became of requests, one of each kind, whose engine was killed in its third piece of work."""

    painted: Job
    streamed: list[bytes]
    ended: list[int]
    scored: Job
    heard: list[Event]
    restarts: int


@pytest.fixture(scope="module")
def replayed(loop: asyncio.Runner, living: RecordingClient, signal_file: Path) -> Replayed:
    signal_file.write_text(str(int(signal.SIGKILL)))

    async def streamed() -> tuple[list[bytes], list[int]]:
        told, ended = [b""] * IMAGES, []
        with living.paint(IMAGES, 7, 1.0, (KNOWN.tobytes(),), (HOLE.tobytes(),), stream=True) as job:
            async for news in job.news():
                for index, first, data in news.frames:
                    assert first == len(told[index])
                    told[index] += data
                ended += [index for index, _ in news.ended]
        return told, ended

    async def scored() -> Job:
        with living.score(tuple(image.tobytes() for image in SCORED)) as job:
            await with_deadline(job.wait())
        return job

    async def all_three() -> Replayed:
        living.events.clear()
        paint, stream, score = await asyncio.gather(painted(living, IMAGES, seed=7), streamed(), scored())
        return Replayed(paint, *stream, score, living.events.copy(), living.restarts)

    return loop.run(all_three())


async def painted(engine: RecordingClient, images: int, seed: int) -> Job:
    with engine.reserve(images), engine.paint(images, seed, temperature=0.8) as job:
        await with_deadline(job.wait())
    return job


def assert_undisturbed(grey: Transformer, job: Job, seed: int) -> None:
    __tracebackhide__ = True
    undisturbed = paint(grey, len(job.images), seed=seed, temperature=0.8)
    np.testing.assert_array_equal(job.images, undisturbed.images)
    np.testing.assert_array_equal(job.bits_per_dim, undisturbed.bits_per_dim)


def test_bytes_are_those_of_an_engine_that_lives(replayed: Replayed, grey: Transformer) -> None:
    assert replayed.restarts == 1
    assert_undisturbed(grey, replayed.painted, seed=7)


def test_a_stream_tells_every_byte_once(replayed: Replayed, grey: Transformer) -> None:
    undisturbed = paint(grey, IMAGES, seed=7, known=KNOWN, mask=HOLE).images
    np.testing.assert_array_equal([np.frombuffer(image, np.uint8) for image in replayed.streamed], undisturbed)
    assert sorted(replayed.ended) == list(range(IMAGES))


def test_scores_are_those_of_an_engine_that_lives(replayed: Replayed, grey: Transformer) -> None:
    generator = Generator(grey, 1, threads=1)
    alone = [generator.score(image[None])[0] for image in SCORED]
    generator.close()
    np.testing.assert_array_equal([replayed.scored.bits[index] for index in range(IMAGES)], alone)


def test_what_was_finished_is_not_done_again(replayed: Replayed) -> None:
    done = Counter((event.request, event.index) for event in replayed.heard if isinstance(event, Finished | Scored))
    assert set(done.values()) == {1}
    assert len(done) == 3 * IMAGES


def test_an_engine_that_hangs_is_killed_and_what_it_had_is_replayed(
    loop: asyncio.Runner,
    living: RecordingClient,
    signal_file: Path,
    grey: Transformer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    signal_file.write_text(str(int(signal.SIGSTOP)))
    assert_undisturbed(grey, loop.run(painted(living, IMAGES, seed=7)), seed=7)
    assert f"silent for {TIMEOUT} seconds, and then killed" in caplog.text


def test_an_idle_engine_is_heard_of(loop: asyncio.Runner, living: RecordingClient) -> None:
    async def hear_twice() -> None:
        for _ in range(2):
            living.received.clear()
            await living.received.wait()

    restarts = living.restarts
    loop.run(with_deadline(hear_twice()))
    assert living.restarts == restarts


def test_while_there_is_no_engine_requests_come_and_go_and_nothing_of_it_is_left(
    loop: asyncio.Runner, living: RecordingClient, grey: Transformer
) -> None:
    def counted() -> tuple[int, list[str], int]:
        threads = [thread.name for thread in threading.enumerate() if not thread.name.startswith("asyncio")]
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return len(os.listdir("/proc/self/fd")), sorted(threads), len(children)

    async def meanwhile() -> Job:
        with living.paint(ENDLESS, seed=0, temperature=1.0):
            living.signal(signal.SIGKILL)
            while living.is_ready:
                await asyncio.sleep(0)
            painting = asyncio.create_task(painted(living, 2, seed=5))
            await asyncio.sleep(0)
        living.events.clear()
        job = await painting
        assert sum(isinstance(event, Finished) for event in living.events) == 2
        return job

    before = counted()
    assert_undisturbed(grey, loop.run(meanwhile()), seed=5)
    assert counted() == before
    assert (living.jobs, living.quarantine.inside, living.quarantine.waiting) == ({}, {}, set())


def test_an_engine_that_cannot_be_started_again_is_given_up(
    loop: asyncio.Runner,
    tmp_path: Path,
    grey_directory: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its model is gone after the first load."""
    monkeypatch.setattr("scanline.server.engine.client.engine_client.PAUSES", (0.0, 0.0))
    for file in grey_directory.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())

    async def given_up() -> EngineClient:
        engine = await RecordingClient(EngineOptions(tmp_path, "cpu", slots=1, threads=1)).started()
        (tmp_path / "model.safetensors").unlink()
        with engine.paint(ENDLESS, seed=0, temperature=1.0) as job:
            engine.signal(signal.SIGKILL)
            with pytest.raises(EngineFailedError, match="stopped while it worked on this request"):
                await with_deadline(job.wait())
        await engine.close()
        return engine

    engine = loop.run(given_up())
    assert engine.gone.is_set()
    assert engine.load_error is not None
    assert "2 deaths without an image done in between, and it is not started again" in caplog.text
