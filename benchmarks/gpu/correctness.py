"""Correctness of the backends: self-tests, and bits of images alone and among thousands.

Every number of images is painted from the first byte to the last, each image in a slot picked
at random, so that one image is in different rows, programs and graphs each time. Alone it meets
the kernels' narrow programs, among thousands the wide ones. Bits (float64), s and z are
compared bit for bit, not bytes alone.
"""

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import SHIPPED, STATES, Sizes, attempt, bits_of, make_generator, model
from scanline.model.backends.comparison import WrongResultsError
from scanline.model.backends.self_test import run_self_test
from scanline.model.bench.correctness import make_reference
from scanline.model.network.transformer import Transformer
from scanline.model.sampling.base.generator import Generator
from scanline.model.sampling.kinds.image_spec import ImageSpec


def self_test(sizes: Sizes) -> Iterator[Finding]:
    """Yield seconds to ready of the chosen backend; then each way of launching and type of states,
    or why it fails."""
    for name in sizes.models(*SHIPPED):
        began = time.perf_counter()
        backend = "cuda" if sizes.dry else None
        generator = Generator(model(name, sizes), sizes.most, backend=backend)
        choice = f"chosen: {generator.backend_name}, {generator.backend.name}"
        note = "; ".join((choice, *generator.fallbacks))
        generator.close()
        seconds = time.perf_counter() - began
        yield Finding(f"self_test/{name}/to_ready", seconds, "s", note)
        for dtype in STATES:
            for launches in ("chained", "unchained", "narrow"):
                what = f"self_test/{name}/{bits_of(dtype)}/{launches}"
                test = partial(passed, what, name, dtype, launches, sizes)
                yield from attempt(what, test)
        yield from attempt(f"self_test/{name}/views_differ", partial(views, name, sizes))


def passed(
    what: str, name: str, dtype: torch.dtype, launches: str, sizes: Sizes
) -> Iterator[Finding]:
    """Yield 1 where a backend passes its self-test with thousands of slots; else 0, and what it
    computes wrongly."""
    options = {"chained": launches == "chained", "narrow": launches == "narrow"}
    generator = make_generator(model(name, sizes), sizes.most, dtype, **options)
    on_host = copy.deepcopy(generator.model).cpu()
    try:
        run_self_test(generator.backend, generator.pool, on_host)
        yield Finding(what, 1.0, "passed")
    except WrongResultsError as error:
        yield Finding(what, 0.0, "passed", str(error))
    generator.close()


def views(name: str, sizes: Sizes) -> Iterator[Finding]:
    """Yield the largest difference between steps and the parallel view of torch, over whole
    images."""
    reference = make_reference(model(name, sizes), sizes.compared[:2])
    note = f"backend {reference.backend}"
    yield Finding(f"self_test/{name}/views_differ", reference.views_differ, "bits/dim", note)


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
        state = pool.state.chosen(slots).complete(generator.config.step_bytes)
        return cls(pool.images[slots], pool.bits[slots], state.s, state.z)

    def differences(self, other: "Snapshot") -> dict[str, int]:
        """Return how many images of both differ in each of the arrays; NaN equals no NaN of other
        bits."""
        count = min(len(self.images), len(other.images))
        differing = {}
        for name, axis in {"images": 0, "bits": 0, "s": 1, "z": 1}.items():
            mine = getattr(self, name).transpose(0, axis)
            theirs = getattr(other, name).transpose(0, axis)
            differs = _as_bytes(mine[:count]) != _as_bytes(theirs[:count])
            differing[name] = int(differs.any(dim=1).sum())
        return differing


def _as_bytes(rows: torch.Tensor) -> torch.Tensor:
    if rows.dim() == 1:
        rows = rows[:, None]
    return rows.contiguous().flatten(1).view(torch.uint8)


def same_bits(sizes: Sizes) -> Iterator[Finding]:
    """Compare every number of images with all smaller ones, and launches that do not overlap with
    chained ones, which read early what the launch before the last one wrote; with the weights of
    the shipped models."""
    for name in sizes.models(*SHIPPED):
        expected: dict[int, Snapshot] = {}
        for count in sizes.compared:
            snapshots = painted(model(name, sizes), count)
            yield from compare(f"same_bits/{name}/{count}", snapshots, expected)
        snapshots = painted(model(name, sizes), sizes.most, chained=False)
        yield from compare(f"same_bits/{name}/unchained", snapshots, expected)


def compare(
    what: str, snapshots: dict[int, Snapshot], expected: dict[int, Snapshot]
) -> Iterator[Finding]:
    """Yield a finding for each snapshot, and keep in `expected` the images that no earlier one
    has."""
    for steps, snapshot in snapshots.items():
        before = expected.get(steps)
        if before is not None:
            differing = snapshot.differences(before)
            compared = min(len(snapshot.images), len(before.images))
            counts = ", ".join(f"{name} {count}" for name, count in differing.items())
            note = f"of {compared} images compared; differing: {counts}"
            most = max(differing.values())
            yield Finding(f"{what}/after_{steps}_steps/differing", most, "images", note)
        if before is None or len(before.images) < len(snapshot.images):
            expected[steps] = snapshot


@torch.inference_mode()
def painted(model: Transformer, count: int, **options: Any) -> dict[int, Snapshot]:
    """Return snapshots of the first images after some steps and at the end, painted among
    `count`."""
    generator = make_generator(model, count, ready=False, **options)
    config = generator.config
    order = np.random.default_rng(count).permutation(count)
    specs = [ImageSpec(seed=1, index=index) for index in range(count)]
    generator.place_many(order.tolist(), specs)
    slots = torch.from_numpy(order[:KEPT]).to(model.device)
    snapshots: dict[int, Snapshot] = {}
    done = 0
    checked = [steps for steps in CHECKED if steps < config.steps]
    for steps in (*checked, config.steps):
        generator.advance(steps - done)
        done = steps
        snapshots[steps] = Snapshot.of(generator, slots)
    if not (generator.positions() == config.bytes).all():
        raise RuntimeError("not all images were painted to their end")
    generator.close()
    return snapshots
