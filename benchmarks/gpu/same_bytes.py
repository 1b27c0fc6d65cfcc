"""int8 weights: whether a card has the bits of the CPU kernel, and at which rate beside `exact`.

RECORDED are hashes of what the CPU kernel paints on any machine, so that a card's own processor
need not compute it. They change with the kernel's arithmetic alone.
"""

from collections.abc import Iterator
from functools import partial
from hashlib import sha256

import numpy as np
import torch

from benchmarks.gpu.correctness import KEPT, painted
from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import SHIPPED, Sizes, attempt, model, started, step_seconds
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.kinds.image_spec import ImageSpec

RECORDED = {"mnist-small": "57a3bceefc75e1ac", "cifar10-small": "3193e0c6ae3fe3bf"}
AMONG = 256  # images, of which KEPT are compared
COUNTS = (64, 256, 4096)


def same_bytes(sizes: Sizes) -> Iterator[Finding]:
    """Yield 1 where a card paints the recorded images at the recorded bits, and its rates."""
    for name in sizes.models(*SHIPPED):
        yield from attempt(f"same_bytes/{name}", partial(_same, name, sizes))
        for count in sizes.few(*COUNTS):
            what = f"same_bytes/{name}/{count}"
            yield from attempt(what, partial(_rate, what, name, count, sizes))


def _same(name: str, sizes: Sizes) -> Iterator[Finding]:
    network = model(name, sizes)
    count = min(AMONG, sizes.most)
    expected = by_cpu(network, count) if sizes.dry else RECORDED[name]
    last = painted(network, count, int8_weights=True)[network.config.steps]
    found = hash_of(last.images, last.bits)
    yield Finding(f"same_bytes/{name}/same", found == expected, "", f"{found}, not {expected}")


def _rate(what: str, name: str, count: int, sizes: Sizes) -> Iterator[Finding]:
    seconds = {}
    for int8_weights in (False, True):
        generator = started(model(name, sizes), count, int8_weights=int8_weights)
        seconds[int8_weights] = float(np.median(step_seconds(generator, sizes)))
        steps = generator.config.steps
        generator.close()
    rate = count / (steps * seconds[True])
    yield Finding(f"{what}/step", 1e6 * seconds[True], "us a step", f"{rate:,.0f} images/s")
    yield Finding(f"{what}/of_exact", seconds[False] / seconds[True], "times as fast")


def by_cpu(network: Transformer, count: int) -> str:
    """Return the hash of what the CPU kernel paints."""
    generator = Generator(network.cpu(), count, precision="int8", backend="cpu")
    specs = [ImageSpec(seed=1, index=index) for index in range(count)]
    generator.place_many(range(count), specs)
    generator.advance(generator.config.steps)
    found = hash_of(generator.pool.images[:KEPT], generator.pool.bits[:KEPT])
    generator.close()
    return found


def hash_of(images: torch.Tensor, bits: torch.Tensor) -> str:
    """Return 16 hexadecimal digits of images [n, N] uint8 and their bits [n] float64."""
    return sha256(images.cpu().numpy().tobytes() + bits.cpu().numpy().tobytes()).hexdigest()[:16]
