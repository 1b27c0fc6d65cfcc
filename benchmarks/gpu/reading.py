"""Known bytes: the front of one image, likelihoods of many images, completions of many different pictures."""

import time
from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import PAPER, SHIPPED, Sizes, model
from benchmarks.gpu.timing import make_generator
from scanline.model.bench.measure import durations
from scanline.model.sampling.engine import Engine
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import Failed, Finished, GenerateRequest, ImageSpec

LENGTHS = (1, 15, 16, 392)  # of known fronts, in bytes, after a whole image, as warm-up may read: what clients send


def reading(sizes: Sizes) -> Iterator[Finding]:
    """Prefill, scoring and completions of every kind of model."""
    for name in (PAPER[0], *SHIPPED, PAPER[1]) if not sizes.dry else SHIPPED[:1]:
        generator = make_generator(model(name, sizes), min(1024, sizes.most))
        images = np.random.default_rng(0).integers(0, 256, (sizes.read, generator.config.bytes), np.uint8)
        yield from first_calls(f"reading/{name}", generator, images[0])
        yield from rates(f"reading/{name}", generator, images, sizes)
        yield from completions(f"reading/{name}", generator, images)
        generator.close()


def known(generator: Generator, image: np.ndarray, stop: int) -> ImageSpec:
    return ImageSpec(seed=1, index=0, known=image, mask=np.arange(generator.config.bytes) < stop)


def first_calls(what: str, generator: Generator, image: np.ndarray) -> Iterator[Finding]:
    """The first prefill of each length against its second: a kernel that is compiled in between takes seconds."""
    config = generator.config
    for length in dict.fromkeys(min(length, config.bytes) for length in (config.bytes, *LENGTHS)):
        times = []
        for _ in range(2):
            began = time.perf_counter()
            generator.prefill(known(generator, image, length))
            if generator.model.device.type == "cuda":
                torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - began))
        first, second = times
        yield Finding(f"{what}/first_prefill/{length}", first, "ms", f"the second {second:.2f} ms")


def rates(what: str, generator: Generator, images: np.ndarray, sizes: Sizes) -> Iterator[Finding]:
    """Milliseconds of the front half of one image; likelihoods of many images."""
    config = generator.config
    half = known(generator, images[0], config.first + config.steps // 2 * config.step_bytes)
    calls = 1 if sizes.dry else 5
    times = durations(lambda: generator.prefill(half), sizes.seconds, sizes.device, calls)
    yield Finding(f"{what}/prefill", 1e3 * float(np.median(times)), "ms", "the front half of one image")
    calls = 1 if sizes.dry else 2
    times = durations(lambda: generator.score(images), sizes.seconds, sizes.device, calls)
    yield Finding(f"{what}/score", len(images) / float(np.median(times)), "images/s", f"{len(images)} at once")


def completions(what: str, generator: Generator, images: np.ndarray) -> Iterator[Finding]:
    """One request that completes the lower half of as many different pictures: images/s from start to end."""
    config = generator.config
    mask = np.arange(config.bytes) < config.first + config.steps // 2 * config.step_bytes
    sources, masks = tuple(image.tobytes() for image in images), (mask.tobytes(),) * len(images)
    engine = Engine(generator)
    began = time.perf_counter()
    engine.accept(GenerateRequest(0, len(images), seed=1, known=sources, masks=masks))
    finished = 0
    while not engine.idle:
        events = engine.tick()
        if failed := [event for event in events if isinstance(event, Failed)]:
            raise RuntimeError(failed[0].message)
        finished += sum(isinstance(event, Finished) for event in events)
    rate = finished / (time.perf_counter() - began)
    yield Finding(f"{what}/completions", rate, "images/s", f"{finished} different pictures, half known, one request")
