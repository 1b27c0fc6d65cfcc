"""What decides painting: thousands of images by the number of streams, and a few by how deferred
steps are loaded.

The goal of a step of thousands is 1.25 times what its states alone need at the rate of a copy,
which is measured in the same run. Streams change no bit: the images of each number are compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from benchmarks.gpu.correctness import Snapshot, compare, painted
from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import PAPER, SHIPPED, Sizes, attempt, model, started, step_seconds
from scanline.model.bench.measure import copy_rate

STREAMS = (1, 2, 4)
# images up to which a step loads all deferred rows before it knows how many there are
AT_ONCE = (0, 64)
FEW = (1, 8, 64)
COMPARED = 2048  # images whose bits are compared between two numbers of streams
WORTH = 1.02  # times as fast as one stream: less than that is noise
RATIO = "of_one_stream"  # the end of a finding's name: how many times as fast as one stream


def goals(sizes: Sizes) -> Iterator[Finding]:
    """Yield a step of the most images by each number of streams, its share of the copy's limit, and
    its bits."""
    copy = copy_rate(sizes.device, sizes.seconds, sizes.copied)
    yield Finding("goals/copy", copy / 1e12, "TB/s", "read + written, beyond any cache")
    for name in sizes.models(*SHIPPED, *PAPER):
        yield from attempt(f"goals/{name}", partial(_by_streams, name, copy, sizes))
    for name in sizes.models(*SHIPPED):
        yield from attempt(f"goals/{name}/same_bits", partial(_same_bits, name, sizes))


def _by_streams(name: str, copy: float, sizes: Sizes) -> Iterator[Finding]:
    alone: float | None = None
    for streams in STREAMS:
        what = f"goals/{name}/{sizes.most}/{streams}_streams"
        generator = started(model(name, sizes), sizes.most, **_options(streams, sizes))
        seconds = float(np.median(step_seconds(generator, sizes)))
        traffic = generator.pool.state.traffic
        steps = generator.config.steps
        generator.close()
        rate = sizes.most / (steps * seconds)
        yield Finding(what, 1e6 * seconds, "us a step", f"{rate:,.0f} images/s")
        of_copy = traffic / seconds / copy
        note = "of the rate at which states alone could move"
        yield Finding(f"{what}/of_copy", of_copy, "", note)
        alone = alone or seconds
        yield Finding(f"{what}/{RATIO}", alone / seconds, "times as fast")


def _same_bits(name: str, sizes: Sizes) -> Iterator[Finding]:
    expected: dict[int, Snapshot] = {}
    count = min(COMPARED, sizes.most)
    for streams in STREAMS:
        snapshots = painted(model(name, sizes), count, **_options(streams, sizes))
        yield from compare(f"goals/{name}/same_bits/{streams}_streams", snapshots, expected)


def _options(streams: int, sizes: Sizes) -> dict[str, Any]:
    """Return the backend's options for a number of streams; in a dry run three images are many."""
    options = {"streams": streams}
    if sizes.dry:
        options["many"] = 2
    return options


def chosen(findings: Sequence[Mapping[str, Any]], sizes: Sizes) -> dict[str, Any]:
    """Return the backend's options for what follows `goals`: the number of streams that is fastest
    over all of its models (by the product of their ratios), where that is worth it, and bits were
    compared and do not differ; else none, as shipped."""
    values = {str(finding["name"]): finding["value"] for finding in findings}
    differing = [value for name, value in values.items() if name.endswith("/differing")]
    if set(differing) != {0}:
        return {}
    best = WORTH
    streams_of_best = 1
    for streams in STREAMS[1:]:
        ending = f"/{streams}_streams/{RATIO}"
        ratios: list[float] = []
        for name, value in values.items():
            if name.endswith(ending) and value is not None:
                ratios.append(value)
        mean = prod(ratios) ** (1 / len(ratios)) if ratios else 0.0
        if mean > best:
            best = mean
            streams_of_best = streams
    if streams_of_best == 1:
        return {}
    return _options(streams_of_best, sizes)


def one(sizes: Sizes) -> Iterator[Finding]:
    """Yield a step of few images, and the time of an image, by how deferred rows are loaded."""
    for name in sizes.models(*SHIPPED):
        for count in sizes.few(*FEW):
            for at_once in AT_ONCE:
                what = f"one/{name}/{count}/at_once_{at_once}"
                yield from attempt(what, partial(_one, what, name, count, at_once, sizes))


def _one(what: str, name: str, count: int, at_once: int, sizes: Sizes) -> Iterator[Finding]:
    generator = started(model(name, sizes), count, at_once=at_once)
    seconds = float(np.median(step_seconds(generator, sizes)))
    steps = generator.config.steps
    generator.close()
    yield Finding(what, 1e6 * seconds, "us a step", f"an image in {1e3 * steps * seconds:.1f} ms")
