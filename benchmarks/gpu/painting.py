"""Painting: images/s with 1 to 10,000 in flight, one image from the call to its last byte, and the authors' library."""

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.gpu.ceilings import copy_rate
from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import PAPER, SHIPPED, Sizes, config, model
from benchmarks.gpu.timing import make_generator, started, step_seconds, survived
from scanline.model.bench.baselines import FastTransformers, missing_library
from scanline.model.bench.measure import durations
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec

AUTHORS_IN_FLIGHT = (1, 256, 4096)
ONE_IMAGE_CALLS = 7
TICK_STEPS = 112  # of an image alone: those of a tick of some 20 ms
MODELS = (PAPER[0], *SHIPPED, PAPER[1])


def rates(sizes: Sizes) -> Iterator[Finding]:
    """Rates of every model, number of images and type of states; what does not fit is a finding, too."""
    copy = 1e12 * copy_rate(sizes.copied, sizes)
    for name in MODELS[: 2 if sizes.dry else None]:
        for dtype in (torch.float32, torch.float16):
            for count in sizes.in_flight:
                what = f"rates/{name}/{str(dtype).removeprefix('torch.')}/{count}"
                try:
                    yield from _rate(what, name, dtype, count, copy, sizes)
                except Exception as error:
                    yield Finding(f"{what}/images_per_second", None, note=survived(error))


def _rate(what: str, name: str, dtype: torch.dtype, count: int, copy: float, sizes: Sizes) -> Iterator[Finding]:
    generator = started(model(name, sizes), count, dtype)
    try:
        times = step_seconds(generator, sizes)
    finally:
        generator.close()
    seconds, worst = float(np.median(times)), max(times)
    pool = generator.pool
    moved = 2 * (pool.state.s.nbytes + pool.state.z.nbytes)
    yield Finding(f"{what}/step", 1e6 * seconds, "us", f"median of {len(times)} calls; the longest {1e6 * worst:,.0f}")
    yield Finding(f"{what}/images_per_second", count / (generator.config.steps * seconds), "images/s")
    yield Finding(f"{what}/of_copy", moved / seconds / copy, "", "traffic of states alone, over the copy bandwidth")


def one_image(sizes: Sizes) -> Iterator[Finding]:
    """Milliseconds of an image alone: placed, painted, fetched, in a generator that is ready."""
    for name in MODELS[: 2 if sizes.dry else None]:
        generator = make_generator(model(name, sizes), 1)
        calls = 1 if sizes.dry else ONE_IMAGE_CALLS
        times = [1e3 * seconds for seconds in durations(lambda g=generator: paint_one(g), 0.0, minimum_calls=calls)]
        generator.close()
        median, steps = float(np.median(times)), generator.config.steps
        yield Finding(f"one_image/{name}", median, "ms", f"of {len(times)}: {min(times):.1f} to {max(times):.1f}")
        yield Finding(f"one_image/{name}/step", 1e3 * median / steps, "us")


def paint_one(generator: Generator) -> None:
    """One image from its place to its fetched bytes, in ticks as the engine's."""
    generator.place(0, ImageSpec(seed=1, index=0))
    left = generator.config.steps
    while left:
        steps = min(left, TICK_STEPS)
        generator.advance(steps)
        left -= steps
    generator.image(0)


def authors(sizes: Sizes) -> Iterator[Finding]:
    """The authors' library (the extra `benchmarks`) on the same device, where it is installed."""
    if missing := missing_library():
        yield Finding("authors", None, note=missing)
        return
    for name in PAPER[: 1 if sizes.dry else None]:
        for count in AUTHORS_IN_FLIGHT if not sizes.dry else (1,):
            what = f"authors/{name}/{count}/images_per_second"
            try:
                program = FastTransformers(config(name, sizes), count, sizes.device)
                program.measure(sizes.seconds)
                yield Finding(what, program.rate().images_per_second, "images/s")
                program.close()
            except Exception as error:
                yield Finding(what, None, note=survived(error))
