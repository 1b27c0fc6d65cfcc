"""Known bytes: a first prefill of each length, completions of many different pictures, and codes."""

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import PAPER, SHIPPED, Sizes, make_generator, model
from scanline.kernels.codec.coder import encode
from scanline.model.bench.measure import synchronize
from scanline.model.formats.code_file import Codes
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Finished, GenerateRequest, ImageSpec
from scanline.model.tasks.offline import run

LENGTHS = (1, 15, 16, 392)  # of known prefixes, in bytes, after a whole image, as warm-up may read: what clients send


def reading(sizes: Sizes) -> Iterator[Finding]:
    """Yield times of prefill, completions and codes of every kind of model."""
    for name in sizes.models(PAPER[0], *SHIPPED, PAPER[1]):
        generator = make_generator(model(name, sizes), min(1024, sizes.most))
        images = np.random.default_rng(0).integers(0, 256, (sizes.read, generator.config.bytes), np.uint8)
        yield from first_calls(f"reading/{name}", generator, images[0])
        yield from completions(f"reading/{name}", generator, images)
        yield from codes(f"reading/{name}", generator, images)
        generator.close()


def first_calls(what: str, generator: Generator, image: np.ndarray) -> Iterator[Finding]:
    """Yield the first prefill of each length against its second: a kernel that is compiled in between takes seconds."""
    config = generator.config
    for length in dict.fromkeys(min(length, config.bytes) for length in (config.bytes, *LENGTHS)):
        spec, times = ImageSpec(seed=1, index=0, known=image, mask=np.arange(config.bytes) < length), []
        for _ in range(2):
            began = time.perf_counter()
            generator.prefill(spec)
            synchronize(generator.model.device.type)
            times.append(1e3 * (time.perf_counter() - began))
        first, second = times
        yield Finding(f"{what}/first_prefill/{length}", first, "ms", f"the second {second:.2f} ms")


def completions(what: str, generator: Generator, images: np.ndarray) -> Iterator[Finding]:
    """Yield the rate of a request that completes the lower half of as many different pictures, from start to end."""
    config = generator.config
    mask = np.arange(config.bytes) < config.first + config.steps // 2 * config.step_bytes
    sources, masks = tuple(image.tobytes() for image in images), (mask.tobytes(),) * len(images)
    request, began = GenerateRequest(0, len(images), seed=1, known=sources, masks=masks), time.perf_counter()
    finished = sum(isinstance(event, Finished) for events in run(Engine(generator), request) for event in events)
    rate = finished / (time.perf_counter() - began)
    yield Finding(f"{what}/completions", rate, "images/s", f"{finished} different pictures, half known, one request")


def codes(what: str, generator: Generator, images: np.ndarray) -> Iterator[Finding]:
    """Yield the rates of reading where bytes' intervals lie, of painting from codes and of drawing as many images: each
    the second time, when graphs are recorded."""
    count = len(images)
    for _ in range(2):
        began = time.perf_counter()
        reading = generator.start_prefill(images, [generator.config.bytes] * count, coded=True)
        generator.run_prefill(reading).wait()
        found = [reading.intervals_of(row) for row in range(count)]
        seconds = time.perf_counter() - began
    yield Finding(f"{what}/intervals", count / seconds, "images/s", f"{count} at once, without the coder's time")
    coded = Codes(tuple(encode(map(tuple, own.tolist())) for own in found if own is not None))
    requests = {"decoded": GenerateRequest(0, count, seed=0, codes=coded), "drawn": GenerateRequest(1, count, seed=0)}
    for name, request in requests.items():
        for _ in range(2):
            began = time.perf_counter()
            ended = [event for events in run(Engine(generator), request) for event in events]
            seconds = time.perf_counter() - began
        painted = {event.index: event.image for event in ended if isinstance(event, Finished)}
        right = sum(painted[index] == image.tobytes() for index, image in enumerate(images))
        note = f"{right} of {count} are what was encoded" if name == "decoded" else "beside it"
        yield Finding(f"{what}/{name}", count / seconds, "images/s", f"one request; {note}")
