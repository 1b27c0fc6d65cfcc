"""Everything about a GPU in one command of under ten minutes: tests, then measurements, a line for each, and JSON.

    python -m benchmarks.gpu              needs torch, triton, numpy, safetensors, Pillow, rich and pytest; uses xdist
    python -m benchmarks.gpu --dry-run    without a GPU: the same calls with tiny sizes in Triton's interpreter

Without `pip install -e .`, set PYTHONPATH=.mypy_path, which has the package. A part that fails ends the command;
--only runs the others. "Of the copy" is the traffic of states, read and written once a step, over the copy bandwidth
measured in this run: 100 % is the most that states in memory allow. Weights are random and float16, in
the shape of the paper's MNIST model. Painting is measured by `scanline bench --device cuda`, which this command runs
last, for every training preset.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

if "--dry-run" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # before any kernel is imported

import torch
import torch.nn.functional as F
from rich.console import Console

import scanline.kernels.step.fused_triton as step
from scanline.kernels.triton.linear import NARROW, WIDE, Halves, linear
from scanline.model.backends.cuda import CudaBackend
from scanline.model.backends.slots import SlotPool
from scanline.model.bench.machine import print_json
from scanline.model.bench.measure import durations
from scanline.model.bench.result import print_report
from scanline.model.bench.run import Plan, bench, load
from scanline.model.config import ModelConfig
from scanline.model.network.transformer import Transformer
from scanline.model.training.presets import PRESETS

ROOT = Path(__file__).parents[1]
TESTS = ["tests/kernels", "tests/model/backends/test_cuda.py", "-k", "triton or cuda"]
TINY = {"height": 2, "width": 4, "layers": 1, "heads": 2, "feed_forward": 24}
LAUNCHES, REPLAYS = 10, 9  # calls in a recorded graph, and replays of it; Python's launch time is not measured
BATCHES = (1, 8, 64, 256, 1024, 4096, 10_000)
Line = tuple[str, float, str]  # what, value, unit and note


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes in Triton's interpreter; not a measurement")
    parser.add_argument("--only", nargs="+", help="names of parts")
    options = parser.parse_args()
    dry = options.dry_run
    if not dry and not torch.cuda.is_available():
        parser.error("there is no CUDA device; --dry-run does not need one")
    config = replace(PRESETS["mnist"].model, **(TINY if dry else {}))
    copied = 1 << (10 if dry else 28)  # elements
    parts: dict[str, Callable[[], Iterator[Line]]] = {
        "tests": lambda: tests(dry),
        "ceilings": lambda: ceilings(copied, 32 if dry else 8192),
        "step": lambda: steps(config, 4 if dry else 4096, copied),
        "products": lambda: products(config, [4] if dry else [1, 1024, 4096]),
        "launching": lambda: launching(config, [1, 3] if dry else [1, 64, 4096]),
    }
    found: dict[str, list[Line]] = {}
    for name, part in parts.items():
        if options.only and name not in options.only:
            continue
        print(name, flush=True)
        found[name] = []
        for line in part():
            found[name].append(line)
            what, value, unit = line
            print(f"    {what}: {value:,.4g} {unit}", flush=True)
    if not dry and (not options.only or "painting" in options.only):
        for preset in PRESETS:
            plan = Plan(BATCHES, seconds=1.0, skip=("authors", "softmax"))
            print_report(bench(load(None, preset, "cuda"), preset, plan), Console())
    print_json("gpu", vars(options), results=found)


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def microseconds(call: Callable[[], object], launches: int = LAUNCHES) -> float:
    """Median time of one call; on a GPU, of calls recorded in a graph, so that the host's time is not counted."""
    call()
    if not torch.cuda.is_available():
        return 1e6 * min(durations(call, 0.0, minimum_calls=1))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            call()
    times = durations(graph.replay, 0.0, "cuda", REPLAYS)
    return 1e6 * sorted(times)[len(times) // 2] / launches


def tests(dry: bool) -> Iterator[Line]:
    """Run the tests of the kernels and of the CUDA backend on this device."""
    chosen = ["tests/kernels/triton/test_layer_norm.py"] if dry else TESTS
    parallel = ["-n", "8"] if find_spec("xdist") else []  # most of the time is Triton's compiler
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *parallel, *chosen]
    subprocess.run(command, cwd=ROOT, timeout=400, check=True)
    yield "tests", 1, "run, all passed"


def copy_rate(elements: int) -> float:
    """TB/s, read + written."""
    source = torch.ones(elements, device=device())
    target = torch.empty_like(source)
    return 8 * elements / microseconds(lambda: target.copy_(source)) / 1e6


def ceilings(elements: int, side: int) -> Iterator[Line]:
    yield "copy, read + written", copy_rate(elements), "TB/s"
    for dtype, tf32 in ((torch.float32, False), (torch.float32, True), (torch.float16, False)):
        torch.backends.cuda.matmul.allow_tf32 = tf32
        x, y = (torch.randn(side, side, device=device(), dtype=dtype) for _ in range(2))
        time = microseconds(lambda x=x, y=y: x @ y, 3)
        yield f"torch's product {side}^3, {'TF32' if tf32 else dtype}", 2 * side**3 / time / 1e6, "TFLOP/s"
    torch.backends.cuda.matmul.allow_tf32 = False


def steps(config: ModelConfig, batch: int, copied: int) -> Iterator[Line]:
    """The recurrent step of one layer; `copied` elements give the ceiling."""
    heads, c, m = config.heads, config.key_width, config.value_width
    projected = torch.randn(batch, heads * (2 * c + m), device=device())
    rows, y = torch.randperm(batch, device=device()), torch.empty(batch, heads * m, device=device())
    z = torch.ones(batch, heads, c, device=device())
    ceiling = copy_rate(copied)
    for state_dtype in (torch.float32, torch.float16):
        s = torch.ones(batch, heads, c, m, device=device(), dtype=state_dtype)
        moved = 2 * s.nbytes + 2 * z.nbytes + projected.nbytes + y.nbytes
        time = microseconds(lambda s=s: step.fused_recurrent_step(projected, s, z, rows, y=y))
        share = moved / time / 1e6 / ceiling
        yield f"recurrent step, {batch} rows, {state_dtype}", time, f"us, {share:.1%} of the copy"


def products(config: ModelConfig, batches: list[int]) -> Iterator[Line]:
    """The four products of a layer with what is fused into them, in both launch shapes, and torch's product alone."""
    width, keys, hidden = config.model_width, config.heads * config.key_width, config.feed_forward
    layer = {
        "query, key, value": (width, 2 * keys + width, True, "none", False),
        "attention out": (width, width, False, "none", True),
        "feed-forward in": (width, hidden, True, config.activation, False),
        "feed-forward out": (hidden, width, False, "none", True),
    }
    for batch in batches:
        for name, (inner, outer, normed, activation, residual) in layer.items():
            x, weight = torch.randn(batch, inner, device=device()), torch.randn(outer, inner, device=device()) / 16
            halves = Halves.of(weight.half().float())
            bias, out = torch.zeros(outer, device=device()), torch.zeros(batch, outer, device=device())
            norm = (torch.ones(inner, device=device()), torch.zeros(inner, device=device())) if normed else None
            calls: dict[str, Callable[[], object]] = {
                shape_name: lambda x=x, h=halves, b=bias, o=out, n=norm, a=activation, r=residual, s=shape: linear(
                    x, h, b, o, n, a, o if r else None, s
                )
                for shape_name, shape in (("wide", WIDE), ("narrow", NARROW))
            }
            calls["torch float32 alone"] = lambda x=x, w=weight: F.linear(x, w)
            for call_name, call in calls.items():
                time = microseconds(call)
                rate = 2 * batch * inner * outer / time / 1e6
                yield f"{name}, {batch} rows, {call_name}", time, f"us, {rate:.1f} TFLOP/s"


def launching(config: ModelConfig, batches: list[int]) -> Iterator[Line]:
    """Graphs of one or more branches, with chained launches or not; the bytes must be the same."""
    torch.manual_seed(0)
    model = Transformer(config).eval().requires_grad_(False).half().float().to(device())  # as stored weights are
    count = min(16, config.steps // 4)  # steps of one call
    for batch in batches:
        painted = []
        for branches in (1, 2, 4) if batch >= 2048 else (1,):
            for chained in (False, True):
                backend = CudaBackend(model, branches=branches, chained=chained)
                slots = SlotPool.empty(config, batch, device())
                slots.seed.fill_(1)
                slots.index.copy_(torch.arange(batch, device=device()))
                slots.state.position.fill_(config.first)
                call = lambda b=backend, s=slots: b.advance(s, count)  # noqa: E731
                time = min(durations(call, 0.0, device(), minimum_calls=2)) / count
                painted.append(slots.images.clone())
                assert torch.equal(painted[0], painted[-1]), "bytes depend on how kernels are launched"
                what = f"{batch} in flight, {branches} branches, {'chained' if chained else 'not chained'}"
                yield what, 1e6 * time, "us a step"


if __name__ == "__main__":
    main()
