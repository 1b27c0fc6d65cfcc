"""The rate of training, as a share of what the machine's float32 matrix products alone reach.

    python -m benchmarks.training [--presets mnist-small cifar10-small] [--precision float32] [--threads 1]
        [--processes 1 2]

An update costs 6 operations for each weight and position (2 forwards, 4 backwards); positions are steps: bytes of a
byte model, pixels of a pixel model. The training rate is that count by the median time of whole updates: loss,
gradients, clipping, optimiser, moving average; attention, norms and likelihood take time and count nothing. The ceiling
is the rate of the network's own products, forwards, at the same number of rows. They take turns, so that whatever slows
the machine down slows both. The first call of the compiled loss checks it against the loss as it is written.

A processor with AVX2 alone is simulated by ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2
MKL_ENABLE_INSTRUCTIONS=AVX2.
"""

import argparse
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from scanline.model.bench.measure import durations, product_shapes, products_seconds, synchronize
from scanline.model.config import ModelConfig
from scanline.model.machine import print_json
from scanline.model.network.transformer import Transformer
from scanline.model.training.config import TrainingConfig
from scanline.model.training.optimise.loss import CompiledLoss, loss_of
from scanline.model.training.optimise.precision import PRECISIONS, product_dtype
from scanline.model.training.optimise.processes import Group, processes
from scanline.model.training.optimise.recorded import new_updater
from scanline.model.training.optimise.update import Updater
from scanline.model.training.presets import PRESETS

ROUNDS = 3  # turns of products and updates
CEILING_SECONDS = 0.5  # of each product in each turn, at most
ON_CPU = torch.device("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--presets", nargs="+", default=["mnist-small", "cifar10-small"], choices=list(PRESETS))
    parser.add_argument("--precision", choices=list(PRECISIONS), help="by default bfloat16 where the processor has it")
    parser.add_argument("--no-compile", action="store_true", help="run the loss as it is written")
    parser.add_argument("--batch", type=int, help="images of an update; by default the preset's")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of each process")
    parser.add_argument("--processes", nargs="+", type=int, default=[1], help="numbers of processes, one after another")
    parser.add_argument("--seconds", type=float, default=9.0, help="measuring time of updates, for each preset")
    options = parser.parse_args()
    dtype = product_dtype(torch.device("cpu"), options.precision)
    table = Table(title=f"training, products in {dtype}, GFLOP/s".replace("torch.", ""), title_style="")
    for column in ("preset", "processes", "ms/update", "positions/s", "training", *CEILINGS, "ratio"):
        table.add_column(column, justify="right")
    results = []
    for name, size in product(options.presets, options.processes):
        preset = PRESETS[name]
        recipe = preset.training if options.batch is None else replace(preset.training, batch=options.batch)
        torch.set_num_threads(options.threads * size)  # which the processes share
        job = preset.model, recipe, dtype, not options.no_compile
        with processes(size, _follow, *job) as group:
            result = measure(group, *job, options.seconds)
        results.append({"preset": name, "processes": size, **result})
        rates = [f"{result[key]:.1f}" if result[key] else "-" for key in RATES]
        seconds, positions = result["seconds_of_update"], result["positions_per_second"]
        table.add_row(name, str(size), f"{1e3 * seconds:.0f}", f"{positions:,.0f}", *rates, f"{result['ratio']:.2f}")
    Console(width=110).print(table)
    print_json("training", vars(options), precision=str(dtype).removeprefix("torch."), results=results)


CEILINGS = ("float32 products", "bfloat16 products")
RATES = ("training_gflops", "float32_product_gflops", "bfloat16_product_gflops")


def _updates(
    group: Group,
    config: ModelConfig,
    recipe: TrainingConfig,
    dtype: torch.dtype,
    compiled: bool,
    device: torch.device = ON_CPU,
) -> tuple[Updater, Callable[[], object]]:
    """Return the updater of one process, and what makes an update of a batch of noise, the same in all processes."""
    torch.manual_seed(0)
    updater = new_updater(Transformer(config).to(device), recipe, group, dtype, compiled)
    images = torch.randint(0, 256, (recipe.batch, config.bytes), dtype=torch.uint8, device=device)
    return updater, lambda: updater.update(images, 1000, recipe.learning_rate)


def _follow(group: Group, *job: Any) -> None:
    """Make updates with the first process until it ends this one."""
    _, update = _updates(group, *job)
    while True:
        update()


def measure(
    group: Group,
    config: ModelConfig,
    recipe: TrainingConfig,
    dtype: torch.dtype,
    compiled: bool,
    seconds: float,
    device: torch.device = ON_CPU,
) -> dict[str, Any]:
    """Return rates in GFLOP/s, of all processes together; ratio is training by float32 products of this process."""
    updater, update = _updates(group, config, recipe, dtype, compiled, device)
    began = perf_counter()
    update()  # compiles
    synchronize(device.type)
    first = perf_counter() - began
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else None
    positions = recipe.batch * config.steps
    is_compiled = isinstance(updater.loss, CompiledLoss) and updater.loss.compiled is not loss_of
    if is_compiled != compiled:
        print("the compiled loss could not be used")
    shapes = product_shapes(config)
    operations = 2 * positions * sum(inner * outer for inner, outer in shapes)
    wide = dtype == torch.bfloat16
    times: list[float] = []
    products: dict[torch.dtype, list[float]] = {torch.float32: [], torch.bfloat16: []}
    ceiling_seconds = min(CEILING_SECONDS, seconds / ROUNDS)
    for _ in range(ROUNDS):
        for kind in (torch.float32, torch.bfloat16) if wide else (torch.float32,):
            products[kind].append(products_seconds(shapes, positions, device.type, ceiling_seconds, kind))
        times += durations(update, seconds / ROUNDS, device.type)
    median = float(np.median(times))
    training = 6e-9 * updater.model.parameter_count * positions / median
    ceiling = 1e-9 * operations / min(products[torch.float32])
    return {
        "weights": updater.model.parameter_count,
        "positions": positions,
        "seconds_of_update": median,
        "seconds_of_first": first,
        "compiled": is_compiled,
        "peak_bytes": peak,  # of the GPU, before the products take theirs
        "updates": len(times),
        "positions_per_second": positions / median,
        "training_gflops": training,
        "float32_product_gflops": ceiling,
        "bfloat16_product_gflops": 1e-9 * operations / min(products[torch.bfloat16]) if wide else None,
        "ratio": training / ceiling,
    }


if __name__ == "__main__":
    main()
