"""The simulation as pictures: what images in flight say of load, what pieces do to latency, a step of load in time."""

from pathlib import Path
from typing import Any

import numpy as np
import scaling_cases as cases
from scaling_fleet import AHEAD

SMALL, LARGE = "p95 s", "n = 1000: p50 s"


def save_plots(found: dict[str, list[cases.Row]], seed: int, folder: Path) -> None:
    """scaling-steady.png of the tables that were made, and scaling-step.png."""
    from matplotlib.figure import Figure

    steady = Figure(figsize=(10, 4), layout="constrained")
    load, pieces = steady.subplots(1, 2)
    _draw_load(load, found.get("load", []))
    _draw_pieces(pieces, found.get("pieces", []))
    steady.suptitle("Simulated, the paper's MNIST size: CPU steps fitted to measured ones, H200 computed")
    steady.savefig(folder / "scaling-steady.png", dpi=100)
    step = Figure(figsize=(13, 4), layout="constrained")
    _draw_step(step.subplots(1, 3), seed)
    step.suptitle("Simulated: ten CPU replicas, from 30 % to 300 % of their capacity at second 60")
    step.savefig(folder / "scaling-step.png", dpi=100)


def _draw_load(axes: Any, rows: list[cases.Row]) -> None:
    for machine in cases.MACHINES:
        own = [row for row in rows if row["machine"] == machine.name]
        share = [float(row["in flight, a replica"]) / machine.slots for row in own]
        axes.plot([row["load"] for row in own], share, "o-", label=f"{machine.name}, {machine.slots} slots")
    axes.axhline(0.75, ls="--", color="grey", lw=1, label="target_share 0.75")
    axes.set(xlabel="load, of capacity", ylabel="images in flight / slots", title="what in-flight images say")
    _finish(axes)


def _draw_pieces(axes: Any, rows: list[cases.Row]) -> None:
    own = [row for row in rows if row["machine"] == cases.CPU.name and row["ahead"] == AHEAD]
    sizes = [row["images of a piece"] for row in own]
    axes.plot(sizes, [row[SMALL] for row in own], "o-", label="up to 4 images, p95")
    axes.plot(sizes, [row[LARGE] for row in own], "o-", label="1,000 images, median")
    axes.set(xlabel="images of a piece", ylabel="s", xscale="log", yscale="log", title="pieces, 100 CPU replicas, 0.7")
    _finish(axes)


STEPS: dict[str, dict[str, float]] = {
    "start 5 s, delay 30 s": {},
    "start 60 s": {"start_seconds": 60.0},
    "at most 256 a replica": {"bound": 256.0},
    "delay 5 s": {"up_delay": 5.0},
}


def _draw_step(panels: Any, seed: int) -> None:
    images, replicas, latency = panels
    for label, changed in STEPS.items():
        fleet, _ = cases.surge(10, seed, **changed)
        stop = cases.STEP_AT + cases.STEP_SECONDS
        shown = np.array(fleet.watched.time) <= stop
        time = np.array(fleet.watched.time)[shown]
        images.plot(time, np.array(fleet.watched.images)[shown], label=label)
        replicas.plot(time, np.array(fleet.watched.ready)[shown], label=label)
        at, p95 = cases.over_time(fleet, stop, 1)
        latency.plot(at, p95, label=label)
    images.set(xlabel="s", ylabel="images", title="accepted and not painted")
    replicas.set(xlabel="s", ylabel="replicas", title="ready")
    latency.set(xlabel="s, of arrival", ylabel="s, p95", title="requests up to 4 images")
    for axes in panels:
        _finish(axes)


def _finish(axes: Any) -> None:
    axes.grid(alpha=0.3, which="both")
    axes.set_ylim(bottom=0 if axes.get_yscale() == "linear" else None)
    axes.legend(fontsize="small")
