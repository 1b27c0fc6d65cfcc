"""One update of the weights at the paper's sizes: loss, gradients, optimiser, as `scanline train` does it on a GPU."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import PAPER, SHIPPED, Sizes, attempt, bits_of, config
from benchmarks.training import measure
from scanline.model.training.optimise.precision import product_dtype
from scanline.model.training.optimise.processes import Group
from scanline.model.training.presets import PRESETS


def training_step(sizes: Sizes) -> Iterator[Finding]:
    """Yield times of each preset as it is written, then of smaller ones compiled: torch.compile takes a minute."""
    for name in sizes.models(*PAPER, *SHIPPED):
        what = f"training/{name}/as_written"
        yield from attempt(what, partial(_updates, what, name, False, sizes))
    for name in (SHIPPED[0], PAPER[0]) if not sizes.dry else ():
        what = f"training/{name}/compiled"
        yield from attempt(what, partial(_updates, what, name, True, sizes))


def _updates(what: str, name: str, compiled: bool, sizes: Sizes) -> Iterator[Finding]:
    recipe = PRESETS[name].training if not sizes.dry else replace(PRESETS[name].training, batch=2)
    device = torch.device(sizes.device)
    dtype = product_dtype(device, "float32" if sizes.dry else None)
    if not sizes.dry:
        torch.cuda.reset_peak_memory_stats()
    result = measure(Group(), config(name, sizes), recipe, dtype, compiled, sizes.seconds, device)
    note = f"{recipe.batch} images, products in {bits_of(dtype)}; the first took {result['seconds_of_first']:.1f} s"
    note += "" if result["compiled"] == compiled else "; the compiled loss was refused"
    yield Finding(what, 1e3 * result["seconds_of_update"], "ms an update", note)
    yield Finding(f"{what}/positions", result["positions_per_second"], "positions/s")
    yield Finding(f"{what}/of_float32_products", result["ratio"], "", "operations, over torch's products of that size")
    if not sizes.dry:
        yield Finding(f"{what}/memory", result["peak_bytes"] / 1e9, "GB", "at most")
