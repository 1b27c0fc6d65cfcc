"""Known bytes: likelihoods, completions of many different pictures, and codes."""

import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import PAPER, SHIPPED, Sizes, make_generator, model
from scanline.kernels.codec.coder import encode
from scanline.model.backends.cuda_graph import recorded
from scanline.model.bench.measure import durations
from scanline.model.formats.code_file import Codes
from scanline.model.likelihood.classification import views
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.base.messages import Finished, GenerateRequest, ScoreRequest
from scanline.model.sampling.base.prefill_state import Reading
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.prefill.coded import CodedPrefill
from scanline.model.tasks.offline import run


def likelihoods(sizes: Sizes) -> Iterator[Finding]:
    """Yield rates of scoring, the time to classify an image and how many costs differ, by passes of
    64 images and as they are, by single launches and by graphs."""
    graph = (2, 2) if sizes.dry else (64, 64)
    options_of: dict[str, dict[str, Any]] = {
        "64_images": {"prefill_graphs": (graph,)},
        "as_shipped": {},
    }
    replays = {"launches": lambda _, launches: launches, "graphs": recorded}
    for name in sizes.models(*SHIPPED, PAPER[0]):
        network = model(name, sizes)
        expected: list[np.ndarray] = []
        images = _random_images(sizes.judged, network.config.bytes)
        for passes, options in options_of.items():
            for way, replay in replays.items():
                what = f"likelihoods/{name}/{passes}/{way}"
                with mock.patch("scanline.model.backends.cuda_prefill.recorded", replay):
                    generator = make_generator(network, 1, **options)
                    yield from scored(what, generator, images, expected, sizes)
                generator.close()


def _random_images(count: int, size: int) -> np.ndarray:
    random = np.random.default_rng(0)
    return random.integers(0, 256, (count, size), np.uint8)


def scored(
    what: str,
    generator: Generator,
    images: np.ndarray,  # [n, N]
    expected: list[np.ndarray],
    sizes: Sizes,
) -> Iterator[Finding]:
    """Yield what one way takes; its costs join `expected`, whose first they should be."""
    config = generator.config
    # Each byte's costs, beside those of the first way.
    costs = generator.score(images)
    expected.append(costs)
    differing = int((costs != expected[0]).sum())
    note = f"of {images.size} bytes, from the first way's"
    yield Finding(f"{what}/differing", differing, "costs", note)

    # Many images in one call.
    times = durations(lambda: generator.score(images), 0.0, sizes.device, sizes.calls(3))
    rate = len(images) / float(np.median(times))
    yield Finding(what, rate, "images/s", f"{len(images)} in one call")

    # One image under each class, in each view.
    labels = tuple(range(1, 1 + len(config.classes))) or (0,)
    views_of_image = views(config, images[:1])[0]
    readings: list[bytes] = []
    for view in views_of_image:
        readings += [view.tobytes()] * len(labels)
    request = ScoreRequest(0, tuple(readings), labels * len(views_of_image))
    engine = Engine(generator)

    def read() -> object:
        return list(run(engine, request))

    times = durations(read, 0.0, sizes.device, sizes.calls(9))
    milliseconds = 1e3 * float(np.median(times))
    note = f"{len(readings)} readings of it through the engine"
    yield Finding(f"{what}/one_image", milliseconds, "ms", note)


def reading(sizes: Sizes) -> Iterator[Finding]:
    """Yield rates of completions and codes of every kind of model."""
    for name in sizes.models(PAPER[0], *SHIPPED, PAPER[1]):
        generator = make_generator(model(name, sizes), min(1024, sizes.most), **sizes.fastest)
        images = _random_images(sizes.read, generator.config.bytes)
        yield from completions(f"reading/{name}", generator, images)
        yield from codes(f"reading/{name}", generator, images)
        generator.close()


def completions(what: str, generator: Generator, images: np.ndarray) -> Iterator[Finding]:
    """Yield the rate of a request that completes the lower half of as many different pictures, from
    start to end."""
    config = generator.config
    known = config.first + (config.steps // 2) * config.step_bytes
    mask = np.arange(config.bytes) < known
    sources = tuple(image.tobytes() for image in images)
    masks = (mask.tobytes(),) * len(images)
    request = GenerateRequest(0, len(images), seed=1, known=sources, masks=masks)
    began = time.perf_counter()
    finished = len(_finished(generator, request))
    seconds = time.perf_counter() - began
    rate = finished / seconds
    note = f"{finished} different pictures, half known, one request"
    yield Finding(f"{what}/completions", rate, "images/s", note)


def _finished(generator: Generator, request: GenerateRequest) -> dict[int, bytes]:
    """Run a request; return its images by their indices."""
    images: dict[int, bytes] = {}
    for events in run(Engine(generator), request):
        for event in events:
            if isinstance(event, Finished):
                images[event.index] = event.image
    return images


def codes(what: str, generator: Generator, images: np.ndarray) -> Iterator[Finding]:
    """Yield the rates of reading where bytes' intervals lie, of painting from codes, of drawing as
    many images and of guiding them: each the second time, when graphs are recorded."""
    count = len(images)
    config = generator.config
    for _ in range(2):
        began = time.perf_counter()
        stops = [config.bytes] * count
        reading = generator.start_prefill(images, stops, reading=Reading(CodedPrefill))
        generator.run_prefill(reading).wait()
        intervals = [reading.intervals_of(row) for row in range(count)]
        seconds = time.perf_counter() - began
    note = f"{count} at once, without the coder's time"
    yield Finding(f"{what}/intervals", count / seconds, "images/s", note)

    coded = Codes(tuple(encode(map(tuple, of_image.tolist())) for of_image in intervals))
    requests = {
        "decoded": GenerateRequest(0, count, seed=0, codes=coded),
        "drawn": GenerateRequest(1, count, seed=0),
    }
    if config.can_be_guided:
        requests["guided"] = GenerateRequest(2, count, seed=0, label=1, guidance=2.0)
    for name, request in requests.items():
        for _ in range(2):
            began = time.perf_counter()
            painted = _finished(generator, request)
            seconds = time.perf_counter() - began
        note = "one request"
        if name == "decoded":
            right = sum(painted[index] == image.tobytes() for index, image in enumerate(images))
            note += f"; {right} of {count} are what was encoded"
        yield Finding(f"{what}/{name}", count / seconds, "images/s", note)
