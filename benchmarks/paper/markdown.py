"""Tables and plots of the page: Markdown, and PNG files beside it."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.results import Results
from scanline.model.atomic import write_atomically

Curve = Sequence[tuple[float, float]]  # points (x, y) in the order of x


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table: the first column is left, all others are right aligned."""
    alignment = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (header, alignment, *rows)) + "\n"


def number(value: float | None) -> str:
    """Return three significant digits, in whole numbers with commas from a thousand on; empty for None."""
    if value is None or not math.isfinite(value):
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):.10g}"


def plot(
    results: Results,
    name: str,
    title: str,
    curves: Mapping[str, Sequence[Curve]],
    x: str,
    y: str,
    scales: tuple[str, str] = ("log", "log"),
) -> str:
    """Draw `curves` to `<plots>/<name>.png` and return its Markdown link and command; a sentence without matplotlib.

    curves: by label, one for each seed; several are drawn thin, with their mean over the points that all of them have.
    x, y: the axes' labels with their unit. scales: of matplotlib, "linear" or "log".
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return "(No plot: matplotlib, of the extra `train`, is not installed.)\n"
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for index, (label, of_seeds) in enumerate(curves.items()):
        _draw(axes, label, [curve for curve in of_seeds if curve], f"C{index}")
    axes.set(title=title, xlabel=x, ylabel=y, xscale=scales[0], yscale=scales[1])
    if scales[0] == "log":
        axes.set_xscale("log", base=2)
    axes.grid(alpha=0.3, which="both")
    if curves:
        axes.legend()
    results.plots.mkdir(parents=True, exist_ok=True)
    path = results.plots / f"{name}.png"
    write_atomically(path, partial(_save, figure))
    return f"![{title}]({results.plots.name}/{path.name})\n\n{title}: `python -m benchmarks.paper {results.part}`\n"


def _draw(axes: Any, label: str, of_seeds: list[Curve], colour: str) -> None:
    if len(of_seeds) == 1:
        axes.plot(*zip(*of_seeds[0], strict=True), "o-", ms=3, color=colour, label=label)
    elif of_seeds:
        for curve in of_seeds:
            axes.plot(*zip(*curve, strict=True), lw=0.5, alpha=0.5, color=colour)
        shortest = min(len(curve) for curve in of_seeds)
        mean = np.mean([curve[:shortest] for curve in of_seeds], axis=0)
        axes.plot(mean[:, 0], mean[:, 1], lw=2, color=colour, label=label)


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, format="png", dpi=120)
