"""The backend that a server would choose on this machine, the self-test of every backend that a GPU has, and whether
steps and the parallel view are the same model."""

import copy
import time
from collections.abc import Iterator

import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import SHIPPED, Sizes, model
from benchmarks.gpu.timing import make_generator, survived
from scanline.model.backends.self_test import WrongResultsError, run_self_test
from scanline.model.bench.correctness import make_reference
from scanline.model.sampling.generator import Generator


def self_test(sizes: Sizes) -> Iterator[Finding]:
    """Seconds to ready of the chosen backend; then each way of launching and each type of states, passed or why not."""
    for name in SHIPPED[: 1 if sizes.dry else None]:
        began = time.perf_counter()
        generator = Generator(model(name, sizes), sizes.most, backend="cuda" if sizes.dry else None)
        note = "; ".join((f"chosen: {generator.backend_name}, {generator.backend.name}", *generator.fallbacks))
        generator.close()
        yield Finding(f"self_test/{name}/to_ready", time.perf_counter() - began, "s", note)
        for dtype in (torch.float32, torch.float16):
            for chained in (True, False):
                yield passed(name, dtype, chained, sizes)
        yield from views(name, sizes)


def passed(name: str, dtype: torch.dtype, chained: bool, sizes: Sizes) -> Finding:
    """1 where a backend passes its self-test with thousands of slots; 0, and what it computes wrongly, where not."""
    launches = "chained" if chained else "unchained"
    what = f"self_test/{name}/{str(dtype).removeprefix('torch.')}/{launches}"
    try:
        generator = make_generator(model(name, sizes), sizes.most, dtype, chained=chained)
        run_self_test(generator.backend, generator.pool, copy.deepcopy(generator.model).cpu())
        generator.close()
    except WrongResultsError as error:
        return Finding(what, 0.0, "passed", str(error))
    except Exception as error:
        return Finding(what, None, note=survived(error))
    return Finding(what, 1.0, "passed")


def views(name: str, sizes: Sizes) -> Iterator[Finding]:
    """The largest difference between steps and the parallel view of torch, over whole images."""
    what = f"self_test/{name}/views_differ"
    try:
        reference = make_reference(model(name, sizes), sizes.compared[:2])
    except Exception as error:
        yield Finding(what, None, note=survived(error))
        return
    yield Finding(what, reference.views_differ, "bits/dim", f"backend {reference.backend}")
