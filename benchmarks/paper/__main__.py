"""The paper's comparisons on this machine: measures parts, then writes docs/paper.md from all results there are.

    python -m benchmarks.paper                          all parts, three hours of 2 cores
    python -m benchmarks.paper tables scaling           some of them
    python -m benchmarks.paper --resume                 goes on where a run was stopped, or its minutes were up
    python -m benchmarks.paper --quick                  all parts with shapes cut down, under five minutes
    python -m benchmarks.paper --minutes 0 --resume     the page alone

LSH and the authors' linear attention need the extra `benchmarks`, plots and --fetch the extra `train`. Bits/dim need
MNIST in DATA/mnist; --fetch downloads it. A quick run writes its page beside its results, a full one to docs/.
"""

import argparse
import math
import time
from importlib import import_module
from pathlib import Path

from benchmarks.paper import page
from benchmarks.paper.results import Results
from scanline.model import datasets
from scanline.model.resources import limit_torch_threads

# part -> its module and its share of --minutes; what a part leaves goes to the parts after it
PARTS = {
    "tables": ("tables", 90),
    "scaling": ("scaling", 30),
    "copy": ("copy_task", 60),
}
DOCS = Path(__file__).parents[2] / "docs"


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.paper", description=__doc__.split("\n\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; by default all")
    parser.add_argument("--quick", action="store_true", help="shapes cut down: a test that everything runs")
    parser.add_argument("--resume", action="store_true", help="keep the points that were measured before")
    parser.add_argument("--minutes", type=float, default=180.0, help="no point begins after them")
    parser.add_argument("--out", type=Path, help="results; by default runs/paper, or runs/paper-quick for a quick run")
    parser.add_argument("--data", type=Path, default=Path("data"), help="the folder that holds mnist/")
    parser.add_argument("--fetch", action="store_true", help="download MNIST to DATA/mnist")
    options = parser.parse_args()
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.error(f"unknown part {unknown[0]!r}; known: {', '.join(PARTS)}")
    if not options.minutes >= 0:
        parser.error(f"--minutes must not be negative, not {options.minutes}")
    limit_torch_threads()
    folder = options.out or Path("runs/paper-quick" if options.quick else "runs/paper")
    if options.fetch:
        datasets.fetch("mnist", options.data / "mnist")
    modules = {name: import_module(f"benchmarks.paper.{module}") for name, (module, _) in PARTS.items()}

    left = [name for name in PARTS if name in options.parts or not options.parts]
    deadline = time.monotonic() + 60 * options.minutes
    while left:
        seconds = (deadline - time.monotonic()) * PARTS[left[0]][1] / sum(PARTS[name][1] for name in left)
        name = left.pop(0)
        try:
            results = Results(
                folder,
                name,
                quick=options.quick,
                resume=options.resume,
                seconds=math.inf if options.quick else seconds,
                data=options.data,
            )
        except ValueError as error:
            parser.error(str(error))
        modules[name].run(results, options.quick)
    print(page.write(modules, folder, folder if options.quick else DOCS))


if __name__ == "__main__":
    main()
