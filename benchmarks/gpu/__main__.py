"""Everything about a GPU in one command of under ten minutes: tests, then measurements, a line for each, and JSON.

    python -m benchmarks.gpu              needs torch, triton, numpy, safetensors, Pillow, rich and pytest; uses xdist
    python -m benchmarks.gpu --dry-run    without a GPU: the same calls with tiny sizes in Triton's interpreter

Without `pip install -e .`, set PYTHONPATH=.mypy_path, which has the package. A part that fails is reported, and the
next one runs. images/s = images in flight / (bytes of an image x seconds of a step). "Of the copy" is the state's
traffic, read and written once a byte, over the copy bandwidth measured in this run: 100 % is the most that states in
memory allow. Weights are random, in the shape of the paper's models and float16; bits/dim are of the shipped model.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if "--dry-run" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # before any kernel is imported

import torch

from benchmarks.gpu import kernels, painting
from benchmarks.gpu.finding import Finding
from scanline.model import zoo
from scanline.model.bench.machine import facts
from scanline.model.formats.checkpoint import load_model
from scanline.model.network.transformer import Transformer
from scanline.model.training.presets import PRESETS

ROOT = Path(__file__).parents[2]
TESTS = ["tests/kernels", "tests/model/backends/test_cuda.py"]
TINY = {"height": 2, "width": 4, "layers": 1, "heads": 2, "feed_forward": 24, "neighbours": ()}
Part = Callable[[], Iterator[Finding]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes in Triton's interpreter; not a measurement")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")), help="folder for gpu.json")
    parser.add_argument("--only", nargs="+", help="names of parts")
    parser.add_argument("--minutes", type=float, default=9.5, help="no part starts after this")
    options = parser.parse_args()
    if not options.dry_run and not torch.cuda.is_available():
        parser.error("there is no CUDA device; --dry-run does not need one")

    start = time.monotonic()
    found: dict[str, list[Finding]] = {}
    failed: dict[str, str] = {}
    report: dict[str, Any] = {}
    for name, part in parts(options.dry_run).items():
        if options.only and name not in options.only:
            continue
        if time.monotonic() - start > 60 * options.minutes:
            failed[name] = "not run: no time was left"
            continue
        print(f"[{time.monotonic() - start:5.0f} s] {name}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()
        found[name] = []
        try:
            for finding in part():
                found[name].append(finding)
                print(f"    {finding.what}: {finding.value:,.4g} {finding.unit} {finding.percent} {finding.note}")
        except Exception:
            failed[name] = traceback.format_exc()
            print(failed[name], flush=True)
        report = save(options.out, found, failed, vars(options))
    print(f"{time.monotonic() - start:.0f} s; failed: {', '.join(failed) or 'nothing'}")
    print(json.dumps(report))
    sys.exit(1 if failed else 0)


def parts(dry: bool) -> dict[str, Part]:
    """Name -> measurement, the most important ones first."""
    device = "cpu" if dry else "cuda"
    mnist, cifar = (replace(PRESETS[name].model, **(TINY if dry else {})) for name in ("mnist", "cifar10"))
    rows = 4 if dry else 4096

    @cache
    def model(name: str) -> Transformer:
        """Loaded when a part first needs it; a dry run has a tiny one in the place of the shipped model."""
        config = {"mnist": mnist, "cifar10": cifar}.get(name, mnist if dry else None)
        return load_model(zoo.find(name), device) if config is None else painting.random_model(config, device)

    @cache
    def copy_ceiling() -> Finding:
        return kernels.copy_ceiling(1 << (10 if dry else 28), device)

    def ceilings() -> Iterator[Finding]:
        yield copy_ceiling()
        yield from kernels.product_ceilings(32 if dry else 8192, device)

    def rates(name: str, batches: list[int], state_dtype: torch.dtype = torch.float32) -> Iterator[Finding]:
        title, steps = f"{name}, {state_dtype} states", 1 if dry else painting.STEPS
        yield from painting.rates(model(name), batches, copy_ceiling().value, state_dtype, title, steps)

    def largest(name: str, state_dtype: torch.dtype) -> Iterator[Finding]:
        room = 1 << 16 if dry else int(0.92 * torch.cuda.mem_get_info()[0])
        title = f"{name}, {state_dtype} states"
        yield from painting.largest(model(name), room, title, state_dtype, 1 if dry else 4)

    many, bulk = ([1, 3], [3]) if dry else ([1, 8, 64, 256, 1024, 2048, 4096, 8192, 10_000], [1024, 4096, 10_000])
    return {
        "tests": partial(tests, dry),
        "ceilings": ceilings,
        "mnist": partial(rates, "mnist", many),
        "one image": lambda: painting.one_image(model("mnist"), "mnist"),
        "launching": lambda: painting.launching(model("mnist"), [1, 3] if dry else [1, 64, 4096], 1 if dry else 16),
        "mnist, float16 states": partial(rates, "mnist", bulk, torch.float16),
        "whole images": lambda: painting.whole(model("mnist"), 3 if dry else 10_000, "mnist"),
        "step": lambda: kernels.steps(mnist, rows, copy_ceiling().value, device, sweep=not dry),
        "products": lambda: kernels.products(mnist, [rows] if dry else [1, 1024, rows], device),
        "embedding and sampling": lambda: kernels.ends(mnist, [rows] if dry else [1, rows], device),
        "error of 16-bit states": lambda: painting.state_errors(model(zoo.DEFAULT), 3 if dry else 256, zoo.DEFAULT),
        "cifar10": partial(rates, "cifar10", bulk),
        "cifar10, one image": lambda: painting.one_image(model("cifar10"), "cifar10"),
        "attention": lambda: kernels.attention(mnist, 1 if dry else 64, 65 if dry else 784, device, not dry),
        "largest": partial(largest, "mnist", torch.float32),
        "largest, float16 states": partial(largest, "mnist", torch.float16),
    }


def tests(dry: bool) -> Iterator[Finding]:
    """Runs the tests of the kernels and of the CUDA backend on this device."""
    chosen = ["tests/kernels/triton/test_layer_norm.py"] if dry else [*TESTS, "-k", "triton or cuda"]
    parallel = ["-n", "8"] if find_spec("xdist") else []  # most of the time is Triton's compiler
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *parallel, *chosen]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    tail = (result.stdout + result.stderr).splitlines()[-40:]
    if result.returncode:
        raise AssertionError("\n".join(["tests failed:", *tail]))
    yield Finding("tests", 1, "run", None, tail[-1] if tail else "")


def save(
    folder: Path, found: dict[str, list[Finding]], failed: dict[str, str], options: dict[str, Any]
) -> dict[str, Any]:
    """Writes gpu.json of what is known so far, in case the machine is lost, and returns the object."""
    folder.mkdir(parents=True, exist_ok=True)
    configuration = {key: str(value) for key, value in options.items()}
    results = {name: [asdict(finding) for finding in findings] for name, findings in found.items()}
    report = {"benchmark": "gpu", **facts(), "configuration": configuration, "failed": failed, "results": results}
    (folder / "gpu.json").write_text(json.dumps(report, indent=1))
    return report


if __name__ == "__main__":
    main()
