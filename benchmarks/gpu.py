"""Everything about a GPU in one command of under ten minutes: tests, then measurements, one table and one JSON file.

    python benchmarks/gpu.py              with torch, triton, numpy, safetensors, Pillow, rich and pytest; xdist helps
    python benchmarks/gpu.py --dry-run    anywhere: the same calls on tiny sizes in Triton's interpreter

A part that fails is reported in its place and the next one goes on. images/s = images in flight / (bytes of an image x
seconds of a step). "Of the copy" is the state's traffic, read and written once a byte, over the copy bandwidth measured
in this run: the most that float32 states allow. Random weights in the shape of the paper's models, held in float16 as
stored models are; the shipped model where bits/dim count.
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
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
if "--dry-run" in sys.argv:
    os.environ["TRITON_INTERPRET"] = "1"  # before any kernel is imported

import gpu_kernels as kernels_  # noqa: E402
import gpu_painting as painting  # noqa: E402
import torch  # noqa: E402
from gpu_findings import Finding  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from scanline.model import zoo  # noqa: E402
from scanline.model.bench.machine import facts  # noqa: E402
from scanline.model.formats.checkpoint import load_model  # noqa: E402
from scanline.model.training.presets import PRESETS  # noqa: E402

TESTS = ["tests/kernels", "tests/model/backends/test_cuda.py"]
Part = Callable[[], Iterator[Finding]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--dry-run", action="store_true", help="tiny sizes in Triton's interpreter, no numbers that count"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(os.environ.get("OUT", ".")), help="folder for gpu.json and gpu.txt"
    )
    parser.add_argument("--only", nargs="+", help="names of parts")
    parser.add_argument("--minutes", type=float, default=9.5, help="no part begins after this")
    options = parser.parse_args()
    if not options.dry_run and not torch.cuda.is_available():
        parser.error("there is no CUDA device here; --dry-run needs none")

    begun = time.monotonic()
    found: dict[str, list[Finding]] = {}
    failed: dict[str, str] = {}
    for name, part in parts(options.dry_run).items():
        if options.only and name not in options.only:
            continue
        if time.monotonic() - begun > 60 * options.minutes:
            failed[name] = "no time was left"
            continue
        print(f"[{time.monotonic() - begun:5.0f} s] {name}", flush=True)
        gc.collect()
        torch.cuda.empty_cache()
        found[name] = []
        try:
            for finding in part():
                found[name].append(finding)
                share = "" if finding.share is None else f"{finding.share:.1%}"
                print(f"    {finding.what}: {finding.value:,.4g} {finding.unit} {share} {finding.note}", flush=True)
        except Exception:
            failed[name] = traceback.format_exc()
            print(failed[name], flush=True)
        keep(options.out, found, failed, vars(options))
    print(f"{time.monotonic() - begun:.0f} s; failed: {', '.join(failed) or 'nothing'}")
    sys.exit(1 if failed else 0)


def parts(dry: bool) -> dict[str, Part]:
    """Name -> measurement, the ones that matter most first."""
    device = "cpu" if dry else "cuda"
    tiny = {"height": 2, "width": 4, "layers": 1, "heads": 2, "feed_forward": 24, "neighbours": ()}
    mnist, cifar = (replace(PRESETS[name].model, **(tiny if dry else {})) for name in ("mnist", "cifar10"))
    rows = 4 if dry else 4096
    copied: list[float] = []
    model: dict[str, Any] = {}

    def of(name: str) -> Any:
        """Made at its first use."""
        if name not in model:
            config = {"mnist": mnist, "cifar10": cifar}.get(name)
            shipped = not dry and config is None
            model[name] = load_model(zoo.find(name), device) if shipped else painting.network(config or mnist, device)
        return model[name]

    def ceilings() -> Iterator[Finding]:
        for finding in kernels_.copy_ceiling(1 << (10 if dry else 28), device):
            copied.append(finding.value)
            yield finding
        yield from kernels_.product_ceilings(32 if dry else 8192, device)

    def limit() -> float:
        return copied[0] if copied else next(kernels_.copy_ceiling(1 << (10 if dry else 28), device)).value

    def rates(name: str, batches: list[int], state_dtype: torch.dtype = torch.float32) -> Part:
        title = f"{name} {str(state_dtype).removeprefix('torch.')}"
        return lambda: painting.rates(of(name), batches, limit(), state_dtype, title, 1 if dry else painting.STEPS)

    def biggest(name: str, state_dtype: torch.dtype) -> Part:
        room = (lambda: 1 << 16) if dry else (lambda: int(0.92 * torch.cuda.mem_get_info()[0]))
        return lambda: painting.largest(of(name), room(), f"{name} {state_dtype}", state_dtype, 1 if dry else 4)

    many, bulk = ([1, 3], [3]) if dry else ([1, 8, 64, 256, 1024, 2048, 4096, 8192, 10_000], [1024, 4096, 10_000])
    return {
        "tests": lambda: tests(dry),
        "ceilings": ceilings,
        "mnist": rates("mnist", many),
        "one image": lambda: painting.one_image(of("mnist"), "mnist"),
        "ways of launching": lambda: painting.ways(of("mnist"), [1, 3] if dry else [1, 64, 4096], 1 if dry else 16),
        "mnist, states of 16 bits": rates("mnist", bulk, torch.float16),
        "whole images": lambda: painting.whole(of("mnist"), 3 if dry else 10_000, "mnist"),
        "step": lambda: kernels_.steps(mnist, rows, limit(), device, sweep=not dry),
        "products": lambda: kernels_.products(mnist, [rows] if dry else [1, 1024, rows], device),
        "ends": lambda: kernels_.ends(mnist, [rows] if dry else [1, rows], device),
        "error of 16 bits": lambda: painting.resting_errors(of("mnist-small"), 3 if dry else 256, "mnist-small"),
        "cifar10": rates("cifar10", bulk),
        "cifar10, one image": lambda: painting.one_image(of("cifar10"), "cifar10"),
        "attention": lambda: kernels_.attention(mnist, 1 if dry else 64, 65 if dry else 784, device, not dry),
        "largest": biggest("mnist", torch.float32),
        "largest, states of 16 bits": biggest("mnist", torch.float16),
    }


def tests(dry: bool) -> Iterator[Finding]:
    """The kernels' and the backend's own tests, on this device."""
    chosen = ["tests/kernels/triton/test_layer_norm.py"] if dry else [*TESTS, "-k", "triton or cuda"]
    side_by_side = ["-n", "8"] if find_spec("xdist") else []  # most of the time is Triton's compiler
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *side_by_side, *chosen],
        cwd=ROOT, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    tail = "\n".join((result.stdout + result.stderr).splitlines()[-40:])
    if result.returncode:
        raise AssertionError(f"tests failed:\n{tail}")
    yield Finding("tests", 1, "run", None, tail.splitlines()[-1] if tail else "")


def keep(folder: Path, found: dict[str, list[Finding]], failed: dict[str, str], options: dict[str, Any]) -> None:
    """The table and the JSON of what is known so far, so that nothing is lost if the machine goes."""
    folder.mkdir(parents=True, exist_ok=True)
    table = Table(title="Scanline on a GPU", title_style="")
    for column, justify in (("what", "left"), ("value", "right"), ("", "left"), ("of ceiling", "right"), ("", "left")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for name, findings in found.items():
        table.add_section()
        table.add_row(f"[bold]{name}", "", "", "", "FAILED" if name in failed else "")
        for finding in findings:
            share = "" if finding.share is None else f"{finding.share:.1%}"
            table.add_row(finding.what, f"{finding.value:,.4g}", finding.unit, share, finding.note)
    with (folder / "gpu.txt").open("w") as file:
        Console(file=file, width=140).print(table)
    results = {name: [asdict(finding) for finding in findings] for name, findings in found.items()}
    shown = {key: str(value) for key, value in options.items()}
    report = {"benchmark": "gpu", **facts(), "options": shown, "failed": failed, "results": results}
    (folder / "gpu.json").write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
