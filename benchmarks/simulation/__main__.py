"""From one replica to a thousand, simulated: routers, a step of load, load, sizes of shards, slots.

    python -m benchmarks.simulation                                  all tables: about two minutes of one core
    python -m benchmarks.simulation --only scaling slots --replicas 1 10

Nothing is measured here. A step of a replica takes fixed + each * images seconds, fitted to measured steps on a CPU and
computed for an H200 (cases.py gives the sources); requests, routers and the autoscaler are events in time (cluster.py).
Ingress, proxies and the network take no time, machines are all alike, arrivals are Poisson. The same seed gives the
same tables.
"""

import argparse

from rich.console import Console
from rich.table import Table

from benchmarks.simulation.cases import CASES, Row

WIDTH = 140  # of the tables


def table(name: str, rows: list[Row]) -> Table:
    shown = Table(title=f"{name}: {CASES[name].__doc__}", title_justify="left")
    for column, value in rows[0].items():
        shown.add_column(column, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        shown.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.simulation", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--replicas", type=int, nargs="+", default=[1, 10, 100, 1000], help="of routing and scaling")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for name in options.only:
        Console(width=WIDTH).print(table(name, CASES[name](options.replicas, options.seed)))


if __name__ == "__main__":
    main()
