"""Painting: images/s with 1 to 10,000 in flight, one image from the call to its last byte, the device's memory, and the
authors' library."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import (
    PAPER,
    SHIPPED,
    STATES,
    Sizes,
    attempt,
    bits_of,
    config,
    make_generator,
    model,
    started,
    step_seconds,
)
from scanline.model.backends.slots import ARRAYS
from scanline.model.bench.baselines import FastTransformers, missing_library
from scanline.model.bench.measure import Rate, copy_rate, durations, paint_one, place_all, synchronize
from scanline.model.bench.memory_over_position import resident_memory
from scanline.model.sampling.generator import Generator

AUTHORS_IN_FLIGHT = (1, 256, 4096)
TICK_STEPS = 112  # of an image alone: those of a tick of some 20 ms
MODELS = (PAPER[0], *SHIPPED, PAPER[1])


def rates(sizes: Sizes) -> Iterator[Finding]:
    """Yield rates of every model, number of images and type of states; what does not fit is a finding, too."""
    copy = copy_rate(sizes.device, sizes.seconds, sizes.copied)
    for name in sizes.models(*MODELS):
        for dtype in STATES:
            for count in sizes.in_flight:
                what = f"rates/{name}/{bits_of(dtype)}/{count}"
                yield from attempt(f"{what}/images_per_second", partial(_rate, what, name, dtype, count, copy, sizes))


def _rate(what: str, name: str, dtype: torch.dtype, count: int, copy: float, sizes: Sizes) -> Iterator[Finding]:
    generator = started(model(name, sizes), count, dtype)
    try:
        times = step_seconds(generator, sizes)
    finally:
        generator.close()
    rate, state = Rate.from_steps(count, generator.config.steps, times), generator.pool.state
    note = f"median of {rate.calls} calls; the longest {1e6 * max(times):,.0f}"
    yield Finding(f"{what}/step", 1e3 * rate.step_ms_median, "us", note)
    yield Finding(f"{what}/images_per_second", rate.images_per_second, "images/s")
    moved = 2 * (state.s.nbytes + state.z.nbytes) / (1e-3 * rate.step_ms_median)
    yield Finding(f"{what}/of_copy", moved / copy, "", "traffic of states alone, over the copy bandwidth")


def one_image(sizes: Sizes) -> Iterator[Finding]:
    """Yield milliseconds of an image alone: placed, painted, fetched, in a generator that is ready."""
    for name in sizes.models(*MODELS):
        generator = make_generator(model(name, sizes), 1)
        paint = partial(paint_one, generator, TICK_STEPS)
        times = [1e3 * seconds for seconds in durations(paint, 0.0, minimum_calls=sizes.calls(7))]
        generator.close()
        median, steps = float(np.median(times)), generator.config.steps
        yield Finding(f"one_image/{name}", median, "ms", f"of {len(times)}: {min(times):.1f} to {max(times):.1f}")
        yield Finding(f"one_image/{name}/step", 1e3 * median / steps, "us")


def memory(sizes: Sizes) -> Iterator[Finding]:
    """Yield bytes of the device: of one image at three positions, of graphs and buffers, and of a reading."""
    for name in sizes.models(PAPER[0], SHIPPED[0]):
        network = model(name, sizes)
        before = used(sizes)
        generator = make_generator(network, sizes.most)
        config, what = generator.config, f"memory/{name}/{sizes.most}"
        state = config.state_bytes_per_image
        yield Finding(f"{what}/state", state, "bytes an image", "as GET /v1/models reports it")
        slots = slot_bytes(generator)
        yield Finding(f"{what}/slots", slots / sizes.most, "bytes an image", "state, image, mask, numbers")
        yield Finding(f"{what}/shared", (used(sizes) - before - slots) / 1e6, "MB", "graphs, buffers, reading")
        place_all(generator)
        for share in (0.1, 0.5, 1.0):
            generator.advance(max(1, int(share * config.steps) - int(generator.positions().min()) // config.step_bytes))
            now = (used(sizes) - before) / sizes.most
            yield Finding(f"{what}/at_{share:.0%}", now, "bytes an image", "all that is allocated but the weights")
        yield from _reading(what, generator, sizes)
        generator.close()


def _reading(what: str, generator: Generator, sizes: Sizes) -> Iterator[Finding]:
    before = used(sizes)
    if not sizes.dry:
        torch.cuda.reset_peak_memory_stats()
    generator.score(np.zeros((sizes.read, generator.config.bytes), np.uint8))
    most = used(sizes) if sizes.dry else torch.cuda.max_memory_allocated()
    yield Finding(f"{what}/reading", (most - before) / 1e6, "MB", f"at most, while {sizes.read} images are scored")


def slot_bytes(generator: Generator) -> int:
    """Return the bytes of all arrays that have a row for each slot."""
    pool = generator.pool
    arrays = (*vars(pool.state).values(), *(getattr(pool, name) for name in ARRAYS))
    return sum(array.nbytes for array in arrays)


def used(sizes: Sizes) -> int:
    """Return the bytes of tensors on the device; in a dry run, of this process."""
    synchronize(sizes.device)
    return resident_memory(sizes.device) or 0


def authors(sizes: Sizes) -> Iterator[Finding]:
    """Yield rates of the authors' library (the extra `benchmarks`) on the same device, where it is installed."""
    if missing := missing_library():
        yield Finding("authors", None, note=missing)
        return
    for name in sizes.models(*PAPER):
        for count in AUTHORS_IN_FLIGHT if not sizes.dry else (1,):
            what = f"authors/{name}/{count}/images_per_second"
            yield from attempt(what, partial(_authors, what, name, count, sizes))


def _authors(what: str, name: str, count: int, sizes: Sizes) -> Iterator[Finding]:
    program = FastTransformers(config(name, sizes), count, sizes.device)
    program.measure(sizes.seconds)
    yield Finding(what, program.rate().images_per_second, "images/s")
    program.close()
