"""Painting: images/s with 1 to 10,000 in flight, and what `scanline bench` says of each model."""

from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.baselines import FastTransformers, measure_in_turns, missing_library
from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import (
    PAPER,
    SHIPPED,
    STATES,
    Sizes,
    attempt,
    bits_of,
    model,
    started,
    step_seconds,
)
from scanline.model.bench.measure import Rate, copy_rate, product_shapes, products_seconds
from scanline.model.bench.run import BenchOptions
from scanline.model.bench.run import bench as run_bench

AUTHORS_IN_FLIGHT = (1, 256, 4096)
MODELS = (PAPER[0], *SHIPPED, PAPER[1])


def rates(sizes: Sizes) -> Iterator[Finding]:
    """Yield rates of every model, number of images and type of states; what does not fit is a
    finding, too."""
    copy = copy_rate(sizes.device, sizes.seconds, sizes.copied)
    for name in sizes.models(*MODELS):
        for dtype in STATES:
            for count in sizes.in_flight:
                what = f"rates/{name}/{bits_of(dtype)}/{count}"
                yield from attempt(
                    f"{what}/images_per_second",
                    partial(_rate, what, name, dtype, count, copy, sizes),
                )


def _rate(
    what: str, name: str, dtype: torch.dtype, count: int, copy: float, sizes: Sizes
) -> Iterator[Finding]:
    generator = started(model(name, sizes), count, dtype, **sizes.fastest)
    try:
        times = step_seconds(generator, sizes)
    finally:
        generator.close()
    rate = Rate.from_steps(count, generator.config.steps, times)
    note = f"median of {rate.calls} calls; the longest {1e6 * max(times):,.0f}"
    yield Finding(f"{what}/step", 1e3 * rate.step_ms_median, "us", note)
    yield Finding(f"{what}/images_per_second", rate.images_per_second, "images/s")
    step = 1e-3 * rate.step_ms_median
    shapes = product_shapes(generator.config)
    of_step = {"states": generator.pool.state.traffic / step / copy}
    # Ours are two products of float16 each (kernels/triton/linear.py).
    one = products_seconds(shapes, count, sizes.device, sizes.seconds / 10, torch.float16)
    of_step["products"] = 2 * one / step
    of_step["launches and the rest"] = 1 - sum(of_step.values())
    note = "traffic of states alone, over the copy bandwidth; of the step at these rates: "
    note += ", ".join(f"{part} {share:.0%}" for part, share in of_step.items())
    yield Finding(f"{what}/of_copy", of_step["states"], "", note)


def bench(sizes: Sizes) -> Iterator[Finding]:
    """Yield what `scanline bench` measures of each model and no other part does: copies and
    products alone, an image alone from the call to its last byte, likelihoods, the authors'
    library."""
    missing = missing_library()
    if missing is not None:
        yield Finding("authors", None, note=missing)
    for name in sizes.models(*MODELS):
        yield from attempt(f"bench/{name}", partial(_bench, name, sizes))
        if (name in PAPER or sizes.dry) and missing is None:
            yield from attempt(f"authors/{name}", partial(_authors, name, sizes))


def _bench(name: str, sizes: Sizes) -> Iterator[Finding]:
    options = BenchOptions((1,), _seconds(sizes), ("bulk",), backend=_backend(sizes))
    result = run_bench(model(name, sizes), name, options)
    alone = result["one_image"]
    prefill = result["prefill"]
    scoring = result["scoring"]
    ceilings = result["ceilings"]
    note = "read + written, beyond any cache"
    yield Finding(f"ceilings/{name}/copy", ceilings["copy_bytes"] / 1e12, "TB/s", note)
    note = "torch, the model's float32"
    yield Finding(f"ceilings/{name}/products", ceilings["matrix_flop"] / 1e12, "TFLOP/s", note)
    note = f"p99 {1e3 * alone['seconds_p99']:.1f}; backend {result['configuration']['backend']}"
    yield Finding(f"one_image/{name}", 1e3 * alone["seconds_median"], "ms", note)
    yield Finding(f"one_image/{name}/step", 1e3 * alone["step_ms"], "us")
    seconds = prefill["seconds_median"]
    yield Finding(f"reading/{name}/prefill", 1e3 * seconds, "ms", "the first half of one image")
    note = f"{scoring['images']} at once"
    yield Finding(f"reading/{name}/score", scoring["images_per_second"], "images/s", note)


def _authors(name: str, sizes: Sizes) -> Iterator[Finding]:
    for count in AUTHORS_IN_FLIGHT:
        authors = FastTransformers(model(name, sizes).config, count, sizes.device)
        rate = measure_in_turns({"authors": authors}, _seconds(sizes))["authors"]
        what = f"authors/{name}/{count}/images_per_second"
        yield Finding(what, rate.images_per_second, "images/s")


def _seconds(sizes: Sizes) -> float:
    return max(sizes.seconds, 0.01)


def _backend(sizes: Sizes) -> str | None:
    return "eager" if sizes.dry else None
