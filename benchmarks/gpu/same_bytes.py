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
    expected = RECORDED[name]
    if sizes.dry:
        expected = by_cpu(network, count)
    snapshots = painted(network, count, int8_weights=True)
    last = snapshots[network.config.steps]
    found = hash_of(last.images, last.bits)
    note = f"computed {found}, recorded {expected}"
    yield Finding(f"same_bytes/{name}/same", float(found == expected), "", note)


def _rate(what: str, name: str, count: int, sizes: Sizes) -> Iterator[Finding]:
    network = model(name, sizes)
    exact = _step(network, count, sizes, int8_weights=False)
    seconds = _step(network, count, sizes, int8_weights=True)
    rate = count / (network.config.steps * seconds)
    yield Finding(f"{what}/step", 1e6 * seconds, "us a step", f"{rate:,.0f} images/s")
    yield Finding(f"{what}/of_exact", exact / seconds, "times as fast")


def _step(network: Transformer, count: int, sizes: Sizes, int8_weights: bool) -> float:
    """Return the seconds of a step."""
    generator = started(network, count, int8_weights=int8_weights)
    seconds = step_seconds(generator, sizes)
    generator.close()
    return float(np.median(seconds))


def by_cpu(network: Transformer, count: int) -> str:
    """Return the hash of what the CPU kernel paints."""
    generator = Generator(network.cpu(), count, precision="int8", backend="cpu")
    specs = [ImageSpec(seed=1, index=index) for index in range(count)]
    generator.place_many(range(count), specs)
    generator.advance(generator.config.steps)
    pool = generator.pool
    images = pool.images[:KEPT]
    bits = pool.bits[:KEPT]
    generator.close()
    return hash_of(images, bits)


def hash_of(images: torch.Tensor, bits: torch.Tensor) -> str:
    """Return 16 hexadecimal digits of images [n, N] uint8 and their bits [n] float64."""
    hashed = sha256()
    for numbers in (images, bits):
        hashed.update(numbers.cpu().numpy().tobytes())
    return hashed.hexdigest()[:16]
