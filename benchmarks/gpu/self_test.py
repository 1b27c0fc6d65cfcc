"""Self-tests: of the backend that a server would choose on this machine, of every backend that a GPU has, and whether
steps and the parallel view are the same model."""

import copy
import time
from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import SHIPPED, Sizes, model
from benchmarks.gpu.timing import STATES, attempt, bits_of, make_generator
from scanline.model.backends.self_test import WrongResultsError, run_self_test
from scanline.model.bench.correctness import make_reference
from scanline.model.sampling.generator import Generator


def self_test(sizes: Sizes) -> Iterator[Finding]:
    """Yield seconds to ready of the chosen backend; then each way of launching and type of states, or why it fails."""
    for name in sizes.models(*SHIPPED):
        began = time.perf_counter()
        generator = Generator(model(name, sizes), sizes.most, backend="cuda" if sizes.dry else None)
        note = "; ".join((f"chosen: {generator.backend_name}, {generator.backend.name}", *generator.fallbacks))
        generator.close()
        yield Finding(f"self_test/{name}/to_ready", time.perf_counter() - began, "s", note)
        for dtype in STATES:
            for launches in ("chained", "unchained"):
                what = f"self_test/{name}/{bits_of(dtype)}/{launches}"
                yield from attempt(what, partial(passed, what, name, dtype, launches == "chained", sizes))
        yield from attempt(f"self_test/{name}/views_differ", partial(views, name, sizes))


def passed(what: str, name: str, dtype: torch.dtype, chained: bool, sizes: Sizes) -> Iterator[Finding]:
    """Yield 1 where a backend passes its self-test with thousands of slots; else 0, and what it computes wrongly."""
    generator = make_generator(model(name, sizes), sizes.most, dtype, chained=chained)
    try:
        run_self_test(generator.backend, generator.pool, copy.deepcopy(generator.model).cpu())
        yield Finding(what, 1.0, "passed")
    except WrongResultsError as error:
        yield Finding(what, 0.0, "passed", str(error))
    generator.close()


def views(name: str, sizes: Sizes) -> Iterator[Finding]:
    """Yield the largest difference between steps and the parallel view of torch, over whole images."""
    reference = make_reference(model(name, sizes), sizes.compared[:2])
    note = f"backend {reference.backend}"
    yield Finding(f"self_test/{name}/views_differ", reference.views_differ, "bits/dim", note)
