"""Comparison of images alone and among thousands: bits (float64), s and z, bit for bit, not their bytes alone.

Every number of images is painted from the first byte to the last, each image in a slot picked at random, so that one
image is in different rows, programs, graphs and branches each time. Alone it meets the kernels' narrow programs, among
thousands the wide ones.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import SHIPPED, Sizes, model
from benchmarks.gpu.timing import make_generator
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.generator import Generator
from scanline.model.sampling.messages import ImageSpec

KEPT = 64  # images of which states are kept, to compare them with those of larger numbers of images
CHECKED = (1, 16)  # steps after which states are compared, and the last


@dataclass(frozen=True)
class Snapshot:
    """Images 0, 1, ... after some steps."""

    images: torch.Tensor  # [n, N] uint8
    bits: torch.Tensor  # [n] float64
    s: torch.Tensor  # [L, n, H, C, M]
    z: torch.Tensor  # [L, n, H, C]

    @classmethod
    def of(cls, generator: Generator, slots: torch.Tensor) -> "Snapshot":
        pool = generator.pool
        state = pool.state
        return cls(pool.images[slots], pool.bits[slots], state.s[:, slots], state.z[:, slots])

    def differences(self, other: "Snapshot") -> dict[str, int]:
        """Return how many images of both differ in each of the arrays; NaN equals no NaN of other bits."""
        count = min(len(self.images), len(other.images))
        differing = {}
        for name, axis in (("images", 0), ("bits", 0), ("s", 1), ("z", 1)):
            mine, theirs = (_as_bytes(getattr(side, name).transpose(0, axis)[:count]) for side in (self, other))
            differing[name] = int((mine != theirs).any(dim=1).sum())
        return differing


def _as_bytes(rows: torch.Tensor) -> torch.Tensor:
    return rows.contiguous().flatten(1).view(torch.uint8) if rows.dim() > 1 else rows[:, None].view(torch.uint8)


def same_bits(sizes: Sizes) -> Iterator[Finding]:
    """Compare every number of images with all smaller ones, with the weights of the shipped models."""
    for name in sizes.models(*SHIPPED):
        expected: dict[int, Snapshot] = {}
        for count in sizes.compared:
            yield from compare(f"same_bits/{name}/{count}", painted(model(name, sizes), count), expected)


def compare(what: str, snapshots: dict[int, Snapshot], expected: dict[int, Snapshot]) -> Iterator[Finding]:
    """Yield a finding for each snapshot, and keep in `expected` the images that no earlier one has."""
    for steps, snapshot in snapshots.items():
        before = expected.get(steps)
        if before is not None:
            differing = snapshot.differences(before)
            compared = min(len(snapshot.images), len(before.images))
            note = f"of {compared} images compared; differing: " + ", ".join(f"{k} {v}" for k, v in differing.items())
            yield Finding(f"{what}/after_{steps}_steps/differing", max(differing.values()), "images", note)
        if before is None or len(before.images) < len(snapshot.images):
            expected[steps] = snapshot


@torch.inference_mode()
def painted(
    model: Transformer, count: int, load: Callable[[], object] = lambda: None, **options: Any
) -> dict[int, Snapshot]:
    """Return snapshots of the first images after some steps and at the end, painted among `count`.

    `load` is called after the first step, for which graphs are recorded and kernels compiled.
    """
    generator = make_generator(model, count, ready=False, **options)
    config = generator.config
    order = np.random.default_rng(count).permutation(count)
    specs = [ImageSpec(seed=1, index=index) for index in range(count)]
    generator.place_many(order.tolist(), specs)
    slots = torch.from_numpy(order[:KEPT]).to(model.device)
    snapshots: dict[int, Snapshot] = {}
    done = 0
    for steps in (*(steps for steps in CHECKED if steps < config.steps), config.steps):
        generator.advance(steps - done)
        if not done:
            load()
        done = steps
        snapshots[steps] = Snapshot.of(generator, slots)
    if not (generator.positions() == config.bytes).all():
        raise RuntimeError("not all images were painted to their end")
    generator.close()
    return snapshots
