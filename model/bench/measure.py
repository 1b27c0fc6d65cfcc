"""Measurements of the machine (its ceilings) and of Scanline (many
images at once, one alone, known bytes).

Two ceilings say how far a program is from what this machine can do: the float32 matrix products of
the model alone, by torch, and the rate of a copy that no cache holds.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn.functional as F

from scanline.model.backends.backend import Painted
from scanline.model.base.config import ModelConfig
from scanline.model.base.precision import DEFAULT
from scanline.model.bench.correctness import SEED, STEPS, Reference
from scanline.model.network.distribution import distribution
from scanline.model.network.transformer import Transformer
from scanline.model.network.window_input import window
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.kinds.image_spec import ImageSpec

COPY_BYTES = 2**30  # read, and as many written; more than any last-level cache
REPLAYED = 10  # calls in one graph
ROWS = (64, 256, 1024)  # of the model's products, tried besides the batch sizes of the run
IMAGES_SCORED = {"cpu": 16, "cuda": 256}  # in one call
# in one call; on a GPU about those of a server's tick, 20 ms
PASSES = {"cpu": 32, "cuda": 112}
WARM_UP_PASSES = 4


def durations(
    call: Callable[[], object],
    seconds: float,
    device: str = "cpu",
    minimum_calls: int = 3,
    prepare: Callable[[], object] = lambda: None,
) -> list[float]:
    """Return the seconds of each call, until they sum up to `seconds`
    and there are `minimum_calls` of them.

    A first call warms up and is not counted. `prepare` runs before
    every call and is not counted either.
    """
    prepare()
    call()
    times: list[float] = []
    total = 0.0
    while len(times) < minimum_calls or total < seconds:
        prepare()
        synchronize(device)
        start = time.perf_counter()
        call()
        synchronize(device)
        times.append(time.perf_counter() - start)
        total += times[-1]
    return times


def synchronize(device: str) -> None:
    """Wait until the GPU has done its work; nothing to do on a CPU."""
    if device == "cuda":
        torch.cuda.synchronize()


def device_durations(
    call: Callable[[], object],
    seconds: float,
    device: str = "cpu",
) -> list[float]:
    """Return `durations` without the host's time: on a GPU, of REPLAYED calls in one graph."""
    if device == "cpu":
        return durations(call, seconds, device)
    call()  # compiles, and allocates what a graph must not
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPLAYED):
            call()
    replays = durations(graph.replay, seconds, device)
    return [replay / REPLAYED for replay in replays]


@dataclass(frozen=True)
class Ceilings:
    """Rates of this machine, per second."""

    flop_per_step: int  # of the matrix products behind one step of one image
    matrix_rows: int  # with which the model's own products are fastest
    matrix_flop: float  # their rate there
    copy_bytes: float  # read + written

    def against_torch_matmul(self, steps_per_second: float) -> float:
        """Return the rate of the products behind those steps, relative to
        torch doing only the model's products.

        Above 1 our products are faster than torch's, so this is a
        comparison and not a share of a limit.
        """
        return steps_per_second * self.flop_per_step / self.matrix_flop


def measure_ceilings(
    config: ModelConfig, batches: Sequence[int], device: str, seconds: float = 0.5
) -> Ceilings:
    """Measure each of them for `seconds`."""
    shapes = product_shapes(config)
    flop_per_step = 2 * sum(inner * outer for inner, outer in shapes)
    rates = {}
    for rows in sorted({*batches, *ROWS}):
        rates[rows] = rows * flop_per_step / products_seconds(shapes, rows, device, seconds)
    best = max(rates, key=rates.__getitem__)
    return Ceilings(
        flop_per_step=flop_per_step,
        matrix_rows=best,
        matrix_flop=rates[best],
        copy_bytes=copy_rate(device, seconds),
    )


def product_shapes(config: ModelConfig) -> list[tuple[int, int]]:
    """Return (inner, outer) of every matrix product of one step."""
    width = config.model_width
    keys = config.heads * config.key_width
    hidden = config.feed_forward
    layer = [(width, 2 * keys + width), (width, width), (width, hidden), (hidden, width)]
    block = [(width, config.block_width), (config.block_width, width)]
    shapes = block * config.blocks + layer * config.layers
    shapes.append((width, distribution(config).width))
    if config.step == "pixel":
        shapes.insert(0, (window(config).inputs, width))
        if config.predicts == "pixel_logistics":  # the means' linear skip
            shapes.append((window(config).linear_inputs, config.channels))
    return shapes


def products_seconds(
    shapes: list[tuple[int, int]],
    rows: int,
    device: str = "cpu",
    seconds: float = 0.5,
    dtype: torch.dtype = torch.float32,
) -> float:
    """Return the least seconds of x [rows, inner] @ W [inner, outer], once
    for every (inner, outer) of `shapes`.

    Each product has weights of its own, so that they are read from
    where a network's weights are read from.
    """
    pairs = []
    for inner, outer in shapes:
        x = torch.randn(rows, inner, device=device, dtype=dtype)
        weight = torch.randn(outer, inner, device=device, dtype=dtype)
        pairs.append((x, weight))

    def multiply() -> list[torch.Tensor]:
        return [F.linear(x, weight) for x, weight in pairs]

    with torch.inference_mode():
        return min(device_durations(multiply, seconds, device))


def copy_rate(device: str = "cpu", seconds: float = 0.5, size: int | None = None) -> float:
    """Return the bytes per second, read + written, of a copy of `size` bytes, by default
    COPY_BYTES."""
    source = torch.ones((size or COPY_BYTES) // 4, device=device)
    target = torch.zeros_like(source)
    times = device_durations(lambda: target.copy_(source), seconds, device)
    # whose graphs leave a copy to its copy engines, which are slower than a kernel
    if device != "cpu":
        times += device_durations(lambda: torch.neg(source, out=target), seconds, device)
    return 2 * source.nbytes / min(times)


@dataclass(frozen=True)
class Rate:
    """How fast one program paints a batch of images."""

    step_ms_median: float  # one step of every image
    step_ms_p99: float
    images_per_second: float
    calls: int  # timed

    @classmethod
    def from_steps(cls, batch: int, steps: int, seconds: list[float]) -> "Rate":
        """Return the rate by the seconds of a step, one for each timed call; all `steps` of an
        image cost the same."""
        median, p99 = np.percentile(seconds, (50, 99)).tolist()
        return cls(1e3 * median, 1e3 * p99, batch / (steps * median), len(seconds))


@dataclass(frozen=True)
class Work:
    """What painting an image takes: where a backend paints ahead, fewer passes than steps, and
    somewhat more rows."""

    passes: float
    rows: float  # steps that are computed
    wrong_guesses: float

    @classmethod
    def of(cls, painted: Painted) -> "Work":
        """Return the means of images that were painted from their beginning to their end."""
        images = painted.images
        return cls(painted.passes / images, painted.computed / images, painted.wrong / images)

    def limits(self, ceilings: Ceilings, traffic: float) -> dict[str, float]:
        """Return the images/s that products and states allow: the products of each row, and in each
        pass `traffic` bytes of the state, if none of it stays in a cache."""
        flop = ceilings.flop_per_step * self.rows
        return {
            "images_by_products": ceilings.matrix_flop / flop,
            "images_by_state_traffic": ceilings.copy_bytes / (traffic * self.passes),
        }


class Scanline:
    """Scanline's own generator with `batch` images in flight; when they near their end, all start
    again."""

    def __init__(
        self, model: Transformer, batch: int, reference: Reference, precision: str = DEFAULT
    ) -> None:
        self.generator = Generator(model, batch, precision=precision, backend=reference.backend)
        self.reference = reference
        steps = model.config.steps
        self.steps = min(STEPS, steps)
        self.work = Work(steps, steps, 0)
        self.times: list[float] = []
        place_all(self.generator)

    def measure(self, seconds: float) -> None:
        """Time steps of every image; checking the bytes is not timed."""
        if self.generator.paints_ahead:
            self._measure_whole(seconds)
        else:
            self.times += step_durations(
                self.generator, seconds, self.steps, before_restart=self._check
            )
            self._check()

    def _measure_whole(self, seconds: float) -> None:
        """Time whole images: painting ahead takes fewer passes for some parts than for others."""
        self.generator.paint(WARM_UP_PASSES)
        rounds: list[float] = []
        while not rounds or sum(rounds) < seconds:
            place_all(self.generator)
            start = time.perf_counter()
            painted = paint_whole(self.generator)
            rounds.append(time.perf_counter() - start)
            self._check()
        self.work = Work.of(painted)
        self.times += [of_round / self.generator.config.steps for of_round in rounds]

    def rate(self) -> Rate:
        return Rate.from_steps(self.generator.slots, self.generator.config.steps, self.times)

    def close(self) -> None:
        self.generator.close()

    def _check(self) -> None:
        self.reference.check(self.generator)


def step_durations(
    generator: Generator,
    seconds: float,
    steps: int = STEPS,
    minimum_calls: int = 3,
    before_restart: Callable[[], object] = lambda: None,
) -> list[float]:
    """Return the seconds of a step of all images, for each call of `steps` steps; near their end,
    all start again."""
    config = generator.config

    def restart_near_end() -> None:
        if generator.positions().max() + steps * config.step_bytes > config.bytes:
            before_restart()
            place_all(generator)

    times = durations(
        lambda: generator.advance(steps),
        seconds,
        generator.model.device.type,
        minimum_calls,
        restart_near_end,
    )
    return [seconds_of_call / steps for seconds_of_call in times]


def paint_whole(generator: Generator) -> Painted:
    """Paint the images in flight to their end, in calls of about a server's tick."""
    passes = PASSES[generator.model.device.type]
    painted = generator.paint(passes)
    while len(generator.pool.in_flight()):
        painted += generator.paint(passes)
    return painted


def place_all(generator: Generator) -> None:
    """Start image i of SEED in slot i, for every slot."""
    slots = range(generator.slots)
    generator.place_many(slots, [ImageSpec(SEED, slot) for slot in slots])


def one_image(
    model: Transformer, seconds: float, reference: Reference, precision: str = DEFAULT
) -> dict[str, float]:
    """Return the seconds of an image alone, from the call to its last byte, in a
    generator that is ready as a server's.

    The milliseconds of a step and of a byte are those of the image divided.
    """
    generator = Generator(model, 1, precision=precision, backend=reference.backend)
    painted: list[Painted] = []
    try:
        times = durations(lambda: painted.append(_paint_one(generator)), seconds, model.device.type)
        reference.check(generator)
    finally:
        generator.close()
    median, p99 = np.percentile(times, (50, 99)).tolist()
    return {
        "seconds_median": median,
        "seconds_p99": p99,
        "step_ms": 1e3 * median / model.config.steps,
        "byte_ms": 1e3 * median / model.config.bytes,
        **asdict(Work.of(painted[-1])),
        "calls": len(times),
    }


def _paint_one(generator: Generator) -> Painted:
    """Paint image 0 from its place to its fetched bytes."""
    generator.place(0, ImageSpec(SEED, 0))
    painted = paint_whole(generator)
    generator.image(0)
    return painted


def known_bytes(
    model: Transformer,
    seconds: float,
    reference: Reference,
    ceilings: Ceilings,
    precision: str = DEFAULT,
) -> tuple[dict[str, float], dict[str, float]]:
    """Return how fast known bytes are read: prefill of the first half of one
    image, and likelihoods of several images.

    Half of an image is a whole number of steps.
    """
    config = model.config
    device = model.device.type
    stop = config.first + max(config.steps // 2, 1) * config.step_bytes
    spec = ImageSpec(SEED, 0, known=reference.images[0], mask=np.arange(config.bytes) < stop)
    painted = np.stack(list(reference.images.values()))
    images = np.resize(painted, (IMAGES_SCORED[device], config.bytes))  # repeats them
    generator = Generator(model, 1, precision=precision, backend=reference.backend)
    try:
        prefill_times = durations(lambda: generator.prefill(spec), seconds, device)
        scoring_times = durations(lambda: generator.score(images), seconds, device)
    finally:
        generator.close()
    prefill = _reading(config, 1, stop - config.first, prefill_times, ceilings)
    scoring = _reading(config, len(images), config.bytes - config.first, scoring_times, ceilings)
    return prefill, scoring | {"images_per_second": len(images) / scoring["seconds_median"]}


def _reading(
    config: ModelConfig, images: int, bytes_of_each: int, times: list[float], ceilings: Ceilings
) -> dict[str, float]:
    seconds = float(np.median(times))
    bytes_per_second = images * bytes_of_each / seconds
    return {
        "images": images,
        "bytes_of_each": bytes_of_each,
        "seconds_median": seconds,
        "calls": len(times),
        "bytes_per_second": bytes_per_second,
        "of_matrix_rate": ceilings.against_torch_matmul(bytes_per_second / config.step_bytes),
    }
