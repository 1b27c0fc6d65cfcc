"""Simulated device: it takes its time on a clock of its own and paints pictures that were drawn before.

A step takes what is predicted of an NVIDIA H200 and the paper's MNIST model (8 layers, 8 heads of 32 x 32): the table
STEP_SECONDS, linear between its entries; a copy takes its latency and its bytes at the rate of PCI Express. The device
works on its own, as a GPU does, and the host pays for each launch.

The clock runs with the processor time of this process, and jumps where the process waits for the device. So what it
measures does not depend on what else the machine does: the share of its time in which the device had work is the share
that it would have with a core of this machine for the engine alone.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from PIL import Image, ImageDraw

from scanline.model.backends.arrivals import Arrivals
from scanline.model.backends.backend import Backend
from scanline.model.backends.particles import Groups
from scanline.model.backends.pending import Pending
from scanline.model.backends.prefill_batch import PrefillBatch
from scanline.model.backends.slots import Fetched, SlotPool
from scanline.model.config import ModelConfig
from scanline.model.formats.checkpoint import load_model, save_model
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from scanline.server.engine.worker.process import EngineOptions

STEP_SECONDS = {1: 205e-6, 64: 205e-6, 1024: 380e-6, 4096: 870e-6, 10_000: 2500e-6}  # by images in flight
# Of a pass of known bytes, for each of its rows (an H200 reads 256 images of the paper's MNIST model in 121 ms), and
# besides, which is a guess
READ_ROW_SECONDS, READ_SECONDS = 0.6e-6, 0.5e-3
READ_ROWS = 4096  # positions of all images of a pass together that the device reads at once
READ_LAUNCH_SECONDS = 0.8e-3  # of the host's time for about a hundred launches, for each READ_ROWS
COPY_LATENCY, COPY_BYTES_PER_SECOND = 10e-6, 50e9
CLEAR_BYTES_PER_SECOND = 4e12  # of states, 8 layers x 8 heads x 32 x 33 x 4 bytes an image
STATE_BYTES = 8 * 8 * 32 * 33 * 4
LAUNCH_SECONDS = 8e-6  # of the host's time for the graph of a step
PLACE_SECONDS, FETCH_SECONDS = 60e-6, 40e-6  # of the host's time for about a dozen launches
PICTURES = 512

Result = TypeVar("Result")


class DeviceClock:
    """The processor time of this process, and the time for which it has waited for the device."""

    def __init__(self) -> None:
        self.waited = -time.process_time()

    def now(self) -> float:
        return time.process_time() + self.waited

    def wait_until(self, then: float) -> None:
        self.waited += max(0.0, then - self.now())

    def spend(self, seconds: float) -> None:
        """Let the host work for so long."""
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass


class SimulatedBackend(Backend):
    """A backend whose images are pictures of seeds and indices."""

    rows = 1
    state_dtype = torch.float32
    is_asynchronous = True
    prefill_images = 64
    prefills_in_chunks = True
    name = build = arithmetic = "simulated device"

    def __init__(self, config: ModelConfig) -> None:
        self.config, self.clock = config, DeviceClock()
        self.ends = self.busy = 0.0  # when the last work ends that it was given; seconds of all work so far
        self.pictures = pictures(config)

    def place(self, pool: SlotPool, arrivals: Arrivals) -> None:
        self.clock.spend(PLACE_SECONDS)
        slots = arrivals.slots.numpy()
        pool.seed.numpy()[slots], pool.index.numpy()[slots] = arrivals.seed.numpy(), arrivals.index.numpy()
        self._work(_copy_seconds(len(arrivals.block)) + len(slots) * STATE_BYTES / CLEAR_BYTES_PER_SECOND)

    def advance(self, pool: SlotPool, slots: np.ndarray, steps: int) -> Pending[float]:
        self.clock.spend(steps * LAUNCH_SECONDS)
        seconds = steps * float(np.interp(len(slots), list(STEP_SECONDS), list(STEP_SECONDS.values())))
        return self._pending(self._work(seconds), seconds)

    def fetch(self, pool: SlotPool, slots: np.ndarray) -> Pending[Fetched]:
        self.clock.spend(FETCH_SECONDS)
        images = self.pictures[picture_of(pool.seed.numpy()[slots], pool.index.numpy()[slots])]
        bits = np.full(len(slots), 0.7 * self.config.bytes)
        no_codes = np.zeros((len(slots), 3), np.int64)
        fetched = Fetched(images, bits, np.zeros(len(slots)), np.ones(len(slots)), no_codes)
        return self._pending(self._work(_copy_seconds(images.size)), fetched)

    def resample(self, pool: SlotPool, groups: Groups) -> None:
        """Do nothing: what it paints has no particles."""

    def choose(self, pool: SlotPool, groups: Groups) -> None:
        """Do nothing, as `resample`."""

    def start_prefill(self, batch: PrefillBatch) -> Pending[tuple[float, np.ndarray]]:
        assert batch.start is not None
        rows = int((batch.stops - batch.start).clip(0).sum())
        passes = -(-rows // READ_ROWS)
        self.clock.spend(passes * READ_LAUNCH_SECONDS)
        seconds = passes * READ_SECONDS + rows * READ_ROW_SECONDS
        batch.state.position.copy_(torch.from_numpy(batch.stops))
        bits = np.zeros((len(batch.images), int(batch.stops.max())))
        bits[:, batch.start :] = 1
        return self._pending(self._work(seconds), (seconds, bits))

    def _work(self, seconds: float) -> float:
        """Give the device work; return when it ends."""
        self.ends = max(self.clock.now(), self.ends) + seconds
        self.busy += seconds
        return self.ends

    def _pending(self, ends: float, result: Result) -> Pending[Result]:
        def ended() -> Result:
            self.clock.wait_until(ends)
            return result

        return Pending(ended)


def _copy_seconds(size: int) -> float:
    return COPY_LATENCY + size / COPY_BYTES_PER_SECOND


def picture_of(seed: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return which picture an image is."""
    which: np.ndarray = (seed * 31 + index) % PICTURES
    return which


def pictures(config: ModelConfig) -> np.ndarray:
    """Return PICTURES pictures [P, N] uint8 of a pen's strokes, which compress about as handwritten digits do."""
    rng, drawn = np.random.default_rng(0), []
    for _ in range(PICTURES):
        picture = Image.new("L", (4 * config.width, 4 * config.height))
        points = rng.uniform(0.2, 0.8, (5, 2)) * (4 * config.width, 4 * config.height)
        ImageDraw.Draw(picture).line([tuple(point) for point in points.tolist()], fill=255, width=10, joint="curve")
        drawn.append(np.asarray(picture.resize((config.width, config.height), Image.Resampling.BOX)).reshape(-1))
    return np.stack(drawn)


def model(directory: Path) -> Path:
    """Write a model of MNIST's size whose states are small, because the simulated device has none; its directory."""
    config = ModelConfig(
        height=28, width=28, channels=1, layers=1, heads=1, key_width=1, value_width=2, feed_forward=2, components=1
    )
    save_model(Transformer(config), directory)
    return directory


@dataclass(frozen=True)
class SimulatedOptions(EngineOptions):
    """An engine's options whose generator has the simulated device."""

    def generator(self) -> Generator:
        generator = Generator(load_model(self.directory), self.slots or 4096, threads=1, backend="eager")
        generator.backend = SimulatedBackend(generator.config)
        return generator
