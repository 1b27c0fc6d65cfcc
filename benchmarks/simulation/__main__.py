"""From one replica to a thousand, simulated: routing, load, shards, slots, a step of load, deaths, a rolling restart.

    python -m benchmarks.simulation                                  all tables: about two minutes of one core
    python -m benchmarks.simulation --only scaling faults --replicas 1 10
    python -m benchmarks.simulation --json                           one JSON object

Nothing is measured here. A step of a replica takes fixed + each * images seconds, fitted to measured steps on a CPU and
computed for an H200 (cases.py gives the sources); requests, routers, the autoscaler, deaths and restarts are events in
time (cluster.py). Ingress, proxies and the network take no time, machines are all alike, arrivals are Poisson. The same
seed gives the same tables.
"""

import argparse
import json
from math import isfinite
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.simulation import cases

WIDTH = 190  # of the tables
SIZED = ("routing", "scaling", "restart")  # cases at every number of replicas
NAMES = (*SIZED, "load", "shards", "slots", "faults")


def simulate(name: str, replicas: list[int], seed: int) -> list[cases.Row]:
    """Return the rows of a case."""
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
    """The row for JSON, which has no NaN and no infinity: None instead."""
    return {name: value if isinstance(value, str) or isfinite(value) else None for name, value in row.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.simulation", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    options = parser.parse_args()

    found = {}
    for name in options.only:
        found[name] = simulate(name, options.replicas, options.seed)
        if not options.json:
            Console(width=WIDTH).print(table(name, found[name]))
    if options.json:
        machines = [vars(machine) | {"images_per_second": machine.rate} for machine in cases.MACHINES]
        results = {name: [_plain(row) for row in rows] for name, rows in found.items()}
        print(json.dumps({"benchmark": "simulation", "seed": options.seed, "machines": machines, **results}))


if __name__ == "__main__":
    main()
