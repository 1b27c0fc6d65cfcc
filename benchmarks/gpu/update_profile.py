"""Where the time of an update goes: the compiled and recorded update of each shipped model's size,
and its kernels.

    python -m benchmarks.gpu.update_profile cifar10-small    one of them in this process, without --dry-run

Each is a process of its own, so that they compile at the same time; they are timed one after
another.
"""

import json
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch.profiler import DeviceType, ProfilerActivity, profile

from benchmarks.gpu.results import Finding
from benchmarks.gpu.setup import DRY, ON_GPU, Sizes, attempt, config
from benchmarks.gpu.update_kernels import findings
from scanline.model.base.device import peak_flops
from scanline.model.bench.measure import synchronize
from scanline.model.network.transformer import Transformer
from scanline.model.training.data.positions import Positions
from scanline.model.training.optimise.cuda_graph_updater import (
    WARM_UP,
    RecordedUpdater,
    new_updater,
)
from scanline.model.training.optimise.loss import CompiledLoss, loss_of
from scanline.model.training.optimise.precision import product_dtype
from scanline.model.training.optimise.processes import Group
from scanline.model.training.presets import PRESETS

IMAGES = {"cifar10-small": 64, "mnist-small": 128}
POSITIONS = {"mnist-small": 416}  # of 784, as `scanline train` draws them
# calls of the timer, updates of one, updates that are profiled
TIMED = 20
CALLS = 10
PROFILED = 5
SECONDS = 200  # that a process may take from there on
READY = "ready\n"  # what it prints when its update is compiled and recorded


def update_profile(sizes: Sizes) -> Iterator[Finding]:
    """Yield milliseconds of an update of each model, then those of its kernels, by kind and the
    largest ones."""
    started: list[tuple[str, subprocess.Popen[str]]] = []
    try:
        for name in IMAGES:
            command = [sys.executable, "-m", "benchmarks.gpu.update_profile", name]
            if sizes.dry:
                command.append("--dry-run")
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            started.append((name, process))
        said = {name: _until_ready(process) for name, process in started}
        for name, process in started:
            what = f"update_profile/{name}"
            yield from attempt(what, partial(_timed, what, process, said[name], sizes))
    finally:
        for _, process in started:
            process.kill()
            process.wait()


def _until_ready(process: "subprocess.Popen[str]") -> list[str]:
    """Wait until a process has compiled, or ended; return the lines that it printed before."""
    said: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        if line == READY:
            break
        said.append(line)
    return said


def _timed(
    what: str, process: "subprocess.Popen[str]", said: list[str], sizes: Sizes
) -> Iterator[Finding]:
    """Have a process time its update, and yield what it found, whatever else it prints."""
    try:
        output, _ = process.communicate("go\n", timeout=SECONDS)
    except BrokenPipeError:  # it has ended already
        output = ""
    lines = [*said, *output.splitlines()]
    results = [line for line in lines if line.startswith("{")]
    if not results:
        reason = f"its process ended with exit status {process.wait()}"
        raise RuntimeError(lines[-1].strip() if lines else reason)
    found = json.loads(results[-1])
    yield Finding(what, found["ms"], "ms an update", found["note"])
    peak = peak_flops(sizes.device)
    of_peak = f"{1e12 * found['tflops'] / peak:.1%} of the peak" if peak else ""
    yield Finding(f"{what}/rate", found["tflops"], "TFLOP/s", of_peak)
    yield Finding(f"{what}/compile", found["compile_seconds"], "s", "until the update was recorded")
    yield from findings(what, found["kernels"], PROFILED)


def run(name: str, sizes: Sizes) -> None:
    """Compile and record the update, wait for a line of stdin, and print its times as JSON."""
    began = time.perf_counter()
    device = torch.device(sizes.device)
    count = 2 if sizes.dry else IMAGES[name]
    model = config(name, sizes)
    recipe = replace(PRESETS[name].training, batch=count)
    torch.manual_seed(0)
    dtype = product_dtype(device, "float32" if sizes.dry else None)
    updater = new_updater(Transformer(model).to(device), recipe, Group(), dtype, not sizes.dry)
    images = torch.randint(0, 256, (count, model.bytes), dtype=torch.uint8, device=device)
    labels = None
    if model.classes:
        labels = torch.randint(0, 1 + len(model.classes), (count,), device=device)
    positions = None
    computed = model.steps
    if name in POSITIONS:
        computed = min(POSITIONS[name], model.steps)
        shuffled = torch.rand(count, model.steps, device=device).argsort(1)
        place = shuffled[:, :computed].sort(1).values
        positions = Positions(place, torch.ones(count, computed, device=device))

    def update() -> None:
        updater.update(images, 1000, recipe.learning_rate, labels, positions)

    for _ in range(WARM_UP + 2):
        update()
    synchronize(sizes.device)
    seconds = time.perf_counter() - began
    print(READY, end="", flush=True)
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
        "tflops": 6e-12 * updater.model.parameter_count * count * computed / median,
        "compile_seconds": seconds,
        "note": f"{note}, {'' if recorded else 'not '}recorded",
        "kernels": kernel_times(update, sizes),
    }
    print(json.dumps(found), flush=True)


def kernel_times(update: Callable[[], None], sizes: Sizes) -> dict[str, list[float]]:
    """Return the microseconds of every launch of PROFILED updates, by the kernel's name."""
    activity = ProfilerActivity.CUDA
    kind = DeviceType.CUDA
    if sizes.dry:
        activity = ProfilerActivity.CPU
        kind = DeviceType.CPU
    with profile(activities=[activity]) as trace:
        for _ in range(PROFILED):
            update()
        synchronize(sizes.device)
    times: dict[str, list[float]] = defaultdict(list)
    for event in trace.events():
        if event.device_type == kind:
            times[event.name].append(event.time_range.elapsed_us())
    return times


if __name__ == "__main__":
    run(sys.argv[1], DRY if "--dry-run" in sys.argv else ON_GPU)
