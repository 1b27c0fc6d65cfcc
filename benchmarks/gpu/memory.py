"""Memory of the device: of an image in flight from its first byte to its last, and what reading takes beside it."""

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import PAPER, SHIPPED, Sizes, model
from benchmarks.gpu.timing import make_generator
from scanline.model.backends.slots import ARRAYS
from scanline.model.bench.measure import place_all
from scanline.model.precision import precision
from scanline.model.sampling.generator import Generator


def memory(sizes: Sizes) -> Iterator[Finding]:
    """Bytes of one image at three positions, and of graphs, buffers and a reading."""
    for name in (PAPER[0], SHIPPED[0]) if not sizes.dry else SHIPPED[:1]:
        network = model(name, sizes)
        before = used(sizes)
        generator = make_generator(network, sizes.most)
        config = generator.config
        what = f"memory/{name}/{sizes.most}"
        state = precision("exact").state_bytes(config)
        yield Finding(f"{what}/state", state, "bytes an image", "as GET /v1/models reports it")
        slots = sum(tensor.nbytes for tensor in _tensors(generator))
        yield Finding(f"{what}/slots", slots / sizes.most, "bytes an image", "state, image, mask, numbers")
        yield Finding(f"{what}/beside", (used(sizes) - before - slots) / 1e6, "MB", "graphs, buffers, reading")
        place_all(generator)
        for share in (0.1, 0.5, 1.0):
            generator.advance(max(1, int(share * config.steps) - int(generator.positions().min()) // config.step_bytes))
            now = (used(sizes) - before) / sizes.most
            yield Finding(f"{what}/at_{share:.0%}", now, "bytes an image", "all that is allocated but the weights")
        yield from _reading(what, generator, sizes)
        generator.close()


def _reading(what: str, generator: Generator, sizes: Sizes) -> Iterator[Finding]:
    images = np.zeros((sizes.read, generator.config.bytes), np.uint8)
    before = used(sizes)
    if not sizes.dry:
        torch.cuda.reset_peak_memory_stats()
    generator.score(images)
    most = torch.cuda.max_memory_allocated() if not sizes.dry else used(sizes)
    yield Finding(f"{what}/reading", (most - before) / 1e6, "MB", f"at most, while {sizes.read} images are scored")


def _tensors(generator: Generator) -> list[torch.Tensor]:
    pool = generator.pool
    return [pool.state.s, pool.state.z, pool.state.position, *(getattr(pool, name) for name in ARRAYS)]


def used(sizes: Sizes) -> int:
    """Bytes of tensors on the device; 0 where there is no device to ask."""
    if sizes.dry:
        return 0
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()
