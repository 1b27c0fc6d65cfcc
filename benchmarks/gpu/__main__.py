"""Everything about a GPU in one command of under ten minutes: tests, bit comparisons and
measurements.

    python -m benchmarks.gpu                      everything
    python -m benchmarks.gpu --dry-run            without a GPU: the same code with tiny sizes in Triton's interpreter
    python -m benchmarks.gpu --parts rates bench  these parts alone

It needs torch, triton, numpy, safetensors, Pillow, rich, typer and pytest. Without
`pip install -e .`, set PYTHONPATH=src, where the package is. Results are written to --out after
every finding. A part that fails is recorded with its reason, and the next one goes on; parts are in
the order in which they decide, and those that the budget has no time for are recorded as skipped.
"""

import argparse
import os
import sys
from math import inf
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.parts import PARTS, Part
from benchmarks.gpu.results import SCHEMA, ResultsFile
from benchmarks.gpu.setup import DRY, ON_GPU
from benchmarks.gpu.worker import MIN_DRY, MIN_PART, run_parts
from scanline.model.base.machine import facts

PROPERTIES = (
    "name",
    "major",
    "minor",
    "total_memory",
    "multi_processor_count",
    "L2_cache_size",
    "shared_memory_per_block_optin",
)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit status: 0 where every part that was begun has ended as it should, else 1."""
    options = parse(arguments)
    if options.dry_run:
        # of the processes that run the parts: kernels are imported there anew
        os.environ["TRITON_INTERPRET"] = "1"
    sizes = ON_GPU
    least = MIN_PART
    seconds = 60 * options.minutes
    if options.dry_run:
        sizes = DRY
        least = MIN_DRY
        seconds = inf
    results = ResultsFile(options.out, header(options))
    chosen = [part for part in PARTS if not options.parts or part.name in options.parts]
    try:
        run_parts(chosen, sizes, results, seconds, least)
    except KeyboardInterrupt:
        print("interrupted")
    return conclusion(chosen, results)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="tiny sizes in Triton's interpreter; not a measurement",
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=[part.name for part in PARTS],
        metavar="PART",
        help="these alone: " + ", ".join(part.name for part in PARTS),
    )
    parser.add_argument("--minutes", type=float, default=9.5, help="budget of the whole run")
    parser.add_argument(
        "--out", type=Path, default=Path("gpu-results.json"), help="file of the results"
    )
    options = parser.parse_args(arguments)
    if not options.dry_run and not torch.cuda.is_available():
        parser.error("there is no CUDA device; --dry-run does not need one")
    if not 0 < options.minutes < float("inf"):
        parser.error(f"--minutes must be finite and greater than 0, not {options.minutes}")
    if options.out.exists():
        parser.error(f"{options.out} exists; give another name by --out")
    return options


def header(options: argparse.Namespace) -> dict[str, Any]:
    """Return what every figure depends on."""
    return {
        "benchmark": "gpu",
        "schema": SCHEMA,
        **facts(),
        "gpu": gpu(options.dry_run),
        "triton": triton_version(),
        "dry": options.dry_run,
        "minutes": options.minutes,
    }


def gpu(dry: bool) -> dict[str, Any]:
    """Return the device as torch describes it."""
    if dry:
        return {"name": "none: Triton's interpreter"}
    device = torch.cuda.get_device_properties(0)
    described = {name: getattr(device, name, None) for name in PROPERTIES}
    return {**described, "cuda": torch.version.cuda, "hip": torch.version.hip}


def triton_version() -> str:
    import triton

    return triton.__version__


def conclusion(chosen: list[Part], results: ResultsFile) -> int:
    """Print which parts are done, failed and skipped, and return the exit status."""
    status: dict[str, list[str]] = {"done": [], "failed": [], "skipped": []}
    for part in chosen:
        status[results.status(part.name)].append(part.name)
    print("; ".join(f"{word}: {', '.join(names)}" for word, names in status.items() if names))
    print(f"results: {results.path}")
    return 1 if status["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
