"""One update of the weights at the paper's sizes: loss, gradients, optimiser, as `scanline train` does it on a GPU."""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from benchmarks.gpu.results import Finding
from benchmarks.gpu.sizes import PAPER, SHIPPED, Sizes, config
from benchmarks.gpu.timing import survived
from scanline.model.bench.measure import durations
from scanline.model.network.transformer import Transformer
from scanline.model.training.optimise.loss import loss_of
from scanline.model.training.optimise.precision import product_dtype
from scanline.model.training.optimise.processes import Group
from scanline.model.training.optimise.update import Updater
from scanline.model.training.presets import PRESETS


def training_step(sizes: Sizes) -> Iterator[Finding]:
    """Each preset as it is written, then the smaller ones compiled: torch.compile takes a minute of its own."""
    for name in (*PAPER, *SHIPPED) if not sizes.dry else SHIPPED[:1]:
        yield from _updates(name, False, sizes)
    for name in (SHIPPED[0], PAPER[0]) if not sizes.dry else ():
        yield from _updates(name, True, sizes)


def _updates(name: str, compiled: bool, sizes: Sizes) -> Iterator[Finding]:
    what = f"training/{name}/{'compiled' if compiled else 'as_written'}"
    recipe = PRESETS[name].training if not sizes.dry else replace(PRESETS[name].training, batch=2)
    device = torch.device(sizes.device)
    dtype = product_dtype(device, "float32" if sizes.dry else None)
    try:
        torch.manual_seed(0)
        of = config(name, sizes)
        network = Transformer(of).to(device)
        images = torch.randint(0, 256, (recipe.batch, of.bytes), dtype=torch.uint8, device=device)
        updater = Updater(network, recipe, Group(), dtype, compiled)
        if not sizes.dry:
            torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        updater.update(images, 1000, recipe.learning_rate)[0].item()
        first = time.perf_counter() - began
        calls = 1 if sizes.dry else 5
        times = durations(
            lambda: updater.update(images, 1000, recipe.learning_rate), sizes.seconds, sizes.device, calls
        )
    except Exception as error:
        yield Finding(what, None, note=survived(error))
        return
    seconds = float(np.median(times))
    note = f"{recipe.batch} images, products in {dtype}; the first took {first:.1f} s"
    if compiled and updater.loss.compiled is loss_of:
        note += "; the compiled loss was refused"
    yield Finding(what, 1e3 * seconds, "ms an update", note.replace("torch.", ""))
    yield Finding(f"{what}/positions", recipe.batch * of.steps / seconds, "positions/s")
    if not sizes.dry:
        yield Finding(f"{what}/memory", torch.cuda.max_memory_allocated() / 1e9, "GB", "at most")
