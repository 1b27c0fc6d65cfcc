"""Engine processes with their client in this process, and engines with a fault built in."""

import asyncio
import itertools
import os
import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from scanline.model.sampling.base.messages import GenerateRequest, Ready, ScoreRequest
from scanline.server.engine.local.engine_client import EngineClient
from scanline.server.engine.queue_limits import QueueLimits
from scanline.server.engine.worker.process import EngineOptions
from scanline.server.models import registry
from tests.support.engine.jobs import PaintJob, ScoreJob
from tests.support.waiting import PATIENCE

LENGTH = 35  # bytes of an image of the grey model
ENDLESS = 100_000  # images: minutes of work
DEVICE_FAILS = 0  # in place of a signal's number
# of images that a FaultyOptions engine does not survive
CRASHING_SEED = 666
OUT_OF_MEMORY_SEED = 667


class RecordingClient(EngineClient):
    """An engine client, for images of 35 bytes, that records every event of its engine."""

    def __init__(self, options):
        super().__init__(options, QueueLimits(ENDLESS))
        self.events = []
        self.received = asyncio.Event()

    def _receive(self, events):
        super()._receive(events)
        self.events += events
        self.received.set()

    async def started(self):
        self.start()
        await self.wait_for(Ready)
        return self

    async def wait_for(self, kind):
        """Return when an event of that kind has been received."""
        async with asyncio.timeout(PATIENCE):
            while not any(isinstance(event, kind) for event in self.events):
                self.received.clear()
                await self.received.wait()

    def paint(self, images, seed, **fields):
        return self.run(PaintJob(GenerateRequest(next(self.request_ids), images, seed, **fields)))

    def score(self, images):
        return self.run(ScoreJob(ScoreRequest(next(self.request_ids), images)))

    def signal(self, number):
        os.kill(self.process.process.pid, number)


async def with_deadline(work):
    await asyncio.wait_for(work, PATIENCE)


@dataclass(frozen=True)
class FaultyOptions(EngineOptions):
    """An engine that dies of images of some seeds, and of a signal on request. Where
    `signal_file` holds a signal's number, the engine sends itself that signal once, at its
    third call of `start` or `run_prefill`; where it holds DEVICE_FAILS, that call fails as
    Triton's do on a GPU that has failed."""

    signal_file: Path = Path("none")
    gate: Path | None = None  # a pipe that it reads before it loads the model

    def generator(self):
        if self.gate is not None:
            self.gate.read_bytes()
        generator = super().generator()
        calls = itertools.count(1)
        has_failed = False

        def synchronize():
            if has_failed:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")

        def send_signal_if_due(*_):
            nonlocal has_failed
            if not self.signal_file.exists() or next(calls) != 3:
                return
            number = int(self.signal_file.read_text())
            self.signal_file.unlink()
            if number != DEVICE_FAILS:
                os.kill(os.getpid(), number)
                return
            has_failed = True
            raise RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered")

        def die_of_some_seeds(slots, specs, *_):
            seeds = {spec.seed for spec in specs}
            if CRASHING_SEED in seeds:
                os.kill(os.getpid(), signal.SIGSEGV)
            elif OUT_OF_MEMORY_SEED in seeds:
                np.empty(1 << 50, np.uint8)

        generator.synchronize = synchronize
        before(generator, "place_many", die_of_some_seeds)
        before(generator, "start", send_signal_if_due)
        before(generator, "run_prefill", send_signal_if_due)
        return generator


def before(generator, name, act):
    """Call `act` with the arguments of each call of a method, before it."""
    method = getattr(generator, name)

    def acting(*arguments):
        act(*arguments)
        return method(*arguments)

    setattr(generator, name, acting)


def behind_gate(gate):
    """Let the engines of this process, a server's, load behind a gate."""
    registry.EngineOptions = partial(FaultyOptions, gate=gate)
