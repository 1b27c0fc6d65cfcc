"""From one replica to a thousand, simulated: routing, load, pieces, slots, a step of load, deaths, a rolling restart.

    python benchmarks/scaling.py                                     all tables: about two minutes of one core
    python benchmarks/scaling.py --only scaling faults --replicas 1 10
    python benchmarks/scaling.py --json --plot docs                  one JSON object; docs/scaling-*.png

Nothing is measured here. Replicas are machines whose step takes fixed + each * images seconds, fitted to what was
measured on a CPU and computed for an H200 (scaling_cases.py says from what); requests, routers, the autoscaler, deaths
and restarts are events in time (scaling_fleet.py). Same seed, same tables. docs/scaling.md says what it leaves out.
"""

import argparse
import json
from math import isfinite
from pathlib import Path
from typing import Any

import scaling_cases as cases
from rich.console import Console
from rich.table import Table
from scaling_plot import save_plots

WIDTH = 190  # of the tables
SIZED = ("routing", "scaling", "restart")  # cases at every number of replicas
NAMES = (*SIZED, "load", "pieces", "slots", "faults")


def simulated(name: str, replicas: list[int], seed: int) -> list[cases.Row]:
    """The rows of a case."""
    case = getattr(cases, name)
    rows: list[cases.Row] = case(replicas, seed) if name in SIZED else case(seed)
    return rows


def table(name: str, rows: list[cases.Row]) -> Table:
    shown = Table(title=f"{name}: {getattr(cases, name).__doc__.splitlines()[0]}", title_justify="left")
    for column, value in rows[0].items():
        shown.add_column(column, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        shown.add_row(*(_text(value) for value in row.values()))
    return shown


def _text(value: str | float) -> str:
    if isinstance(value, float) and value != int(value if isfinite(value) else 0):
        return f"{value:.3g}" if isfinite(value) else "" if value != value else "none"
    return f"{value:,.0f}" if isinstance(value, float) else str(value)


def _plain(row: cases.Row) -> dict[str, Any]:
    """As JSON can say it: nothing where there is no number, or no limit."""
    return {name: value if isinstance(value, str) or isfinite(value) else None for name, value in row.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draw load, pieces and the step there too")
    options = parser.parse_args()
    if options.plot and not options.plot.is_dir():
        parser.error(f"--plot {options.plot}: there is no such folder")

    found = {}
    for name in options.only:
        found[name] = simulated(name, options.replicas, options.seed)
        if not options.json:
            Console(width=WIDTH).print(table(name, found[name]))
    if options.json:
        machines = [vars(machine) | {"images_per_second": machine.rate} for machine in cases.MACHINES]
        results = {name: [_plain(row) for row in rows] for name, rows in found.items()}
        print(json.dumps({"benchmark": "scaling", "seed": options.seed, "machines": machines, **results}))
    if options.plot:
        save_plots(found, options.seed, options.plot)


if __name__ == "__main__":
    main()
