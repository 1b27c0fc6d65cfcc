"""Where the time of an update goes: the compiled and recorded update of each shipped model's size, and its kernels.

    python -m benchmarks.gpu.update_profile cifar10-small    one of them in this process, without --dry-run

Each is a process of its own, so that they compile at the same time; they are timed one after another.
"""

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch.profiler import DeviceType, ProfilerActivity, profile

from benchmarks.gpu.results import FOLDER, Finding
from benchmarks.gpu.setup import DRY, ON_GPU, Sizes, config
from scanline.model.bench.measure import synchronize
from scanline.model.device import peak_flops
from scanline.model.network.transformer import Transformer
from scanline.model.training.data.positions import Positions
from scanline.model.training.optimise.cuda_graph_updater import WARM_UP, RecordedUpdater, new_updater
from scanline.model.training.optimise.loss import CompiledLoss, loss_of
from scanline.model.training.optimise.precision import product_dtype
from scanline.model.training.optimise.processes import Group
from scanline.model.training.presets import PRESETS

IMAGES = {"cifar10-small": 64, "mnist-small": 128}
POSITIONS = {"mnist-small": 416}  # of 784, as `scanline train` draws them
TIMED, CALLS, PROFILED = 20, 10, 5  # calls of the timer, updates of one, updates that are profiled
LARGEST = 25  # kernels in the table
SECONDS = 200  # that a process may take to compile


def update_profile(sizes: Sizes) -> Iterator[Finding]:
    """Yield milliseconds of an update of each model, and write its largest kernels to update_profile.txt."""
    started, peak = [], peak_flops(sizes.device)
    for name in IMAGES:
        command = [sys.executable, "-m", "benchmarks.gpu.update_profile", name, *["--dry-run"] * sizes.dry]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        started.append((name, process))
    tables = []
    try:
        for _, process in started:  # until all have compiled
            for line in process.stdout:
                if line == "ready\n":
                    break
        for name, process in started:
            what = f"update_profile/{name}"
            output, _ = process.communicate("go\n", timeout=SECONDS)
            lines = output.splitlines()
            if process.returncode:
                yield Finding(what, None, note=lines[-1] if lines else f"exit status {process.returncode}")
                continue
            found = json.loads(lines[-1])
            yield Finding(what, found["ms"], "ms an update", found["note"])
            of_peak = f"{1e12 * found['tflops'] / peak:.1%} of the peak" if peak else ""
            yield Finding(f"{what}/rate", found["tflops"], "TFLOP/s", of_peak)
            yield Finding(f"{what}/compile", found["compile_seconds"], "s", "until the update was recorded")
            tables.append(f"{what}: {found['ms']:.2f} ms an update\n{found['table']}\n")
    finally:
        for _, process in started:
            process.kill()
            process.wait()
        path = Path(os.environ.get(FOLDER, ".")) / "update_profile.txt"
        path.write_text("\n".join(tables))


def run(name: str, sizes: Sizes) -> None:
    """Compile and record the update, wait for a line of stdin, and print its times as JSON."""
    began = time.perf_counter()
    device, count = torch.device(sizes.device), 2 if sizes.dry else IMAGES[name]
    model = config(name, sizes)
    recipe = replace(PRESETS[name].training, batch=count, contrast=0.0)
    torch.manual_seed(0)
    dtype = product_dtype(device, "float32" if sizes.dry else None)
    updater = new_updater(Transformer(model).to(device), recipe, Group(), dtype, not sizes.dry)
    images = torch.randint(0, 256, (count, model.bytes), dtype=torch.uint8, device=device)
    labels = torch.randint(0, 1 + len(model.classes), (count,), device=device)
    drawn, positions = None, model.steps
    if name in POSITIONS:
        positions = min(POSITIONS[name], model.steps)
        place = torch.rand(count, model.steps, device=device).argsort(1)[:, :positions].sort(1).values
        drawn = Positions(place, torch.ones(count, positions, device=device))

    def update() -> None:
        updater.update(images, 1000, recipe.learning_rate, labels if model.classes else None, drawn)

    for _ in range(WARM_UP + 2):
        update()
    synchronize(sizes.device)
    seconds = time.perf_counter() - began
    print("ready", flush=True)
    sys.stdin.readline()

    times = []
    for _ in range(sizes.calls(TIMED)):
        start = time.perf_counter()
        for _ in range(sizes.calls(CALLS)):
            update()
        synchronize(sizes.device)
        times.append((time.perf_counter() - start) / sizes.calls(CALLS))
    median = float(np.median(times))
    compiled = isinstance(updater.loss, CompiledLoss) and updater.loss.compiled is not loss_of
    recorded = isinstance(updater, RecordedUpdater) and updater.graph is not None
    note = f"{count} images, {positions} positions each; {'' if compiled else 'not '}compiled"
    found = {
        "ms": 1e3 * median,
        "tflops": 6e-12 * updater.model.parameter_count * count * positions / median,
        "compile_seconds": seconds,
        "note": f"{note}, {'' if recorded else 'not '}recorded",
        "table": kernel_table(update, sizes),
    }
    print(json.dumps(found), flush=True)


def kernel_table(update: Callable[[], None], sizes: Sizes) -> str:
    """Return the kernels that take most of an update, as lines of text."""
    activity, kind = ProfilerActivity.CUDA, DeviceType.CUDA
    if sizes.dry:
        activity, kind = ProfilerActivity.CPU, DeviceType.CPU
    with profile(activities=[activity]) as trace:
        for _ in range(PROFILED):
            update()
        synchronize(sizes.device)
    times: dict[str, list[float]] = defaultdict(list)
    for event in trace.events():
        if event.device_type == kind:
            times[event.name].append(event.time_range.elapsed_us())
    every = sum(len(launches) for launches in times.values()) / PROFILED
    total = sum(sum(launches) for launches in times.values()) / PROFILED
    largest = sorted(times.items(), key=lambda item: -sum(item[1]))[:LARGEST]
    rows = [f"{total:10.1f} us in {every:.1f} launches of {len(times)} kernels"]
    for k, t in largest:
        rows.append(f"{sum(t) / PROFILED:10.1f} us {len(t) / PROFILED:6.1f} x {np.median(t):8.1f}  {k[:150]}")
    return "\n".join(rows)


if __name__ == "__main__":
    run(sys.argv[1], DRY if "--dry-run" in sys.argv else ON_GPU)
