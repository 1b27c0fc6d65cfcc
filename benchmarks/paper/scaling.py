"""Figure 1: time and peak memory of one sequence, forward and backward, as N grows from 2^9 to 2^16.

The attention alone, causal, of 8 heads of 32, the heads of the paper's models, float32; one sequence, so that all
numbers are per sample. Memory is that of queries, keys, values, outputs, gradients and all that the attention keeps.
Slopes are of least squares on the logarithms, over the points from the length SLOPE_FROM on, where what does not depend
on N no longer counts.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from benchmarks.paper.attentions import attention, unavailable
from benchmarks.paper.isolated import Isolated
from benchmarks.paper.markdown import number, plot, table
from benchmarks.paper.results import Point, Results

HEADS, WIDTH = 8, 32
LENGTHS = tuple(2**power for power in range(9, 17))
QUICK_LENGTHS = (128, 256)
SLOPE_FROM = 2**11
LONGEST_CALL = 150.0  # seconds; a length at which a call would take longer, by its growth, is left out
SECONDS, QUICK_SECONDS = 1.0, 0.05  # of timed calls at each length
NAMES = ("softmax", "softmax, unfused", "lsh-1", "lsh-4", "lsh-8", "linear, authors", "linear, reference", "linear")


def run(results: Results, quick: bool) -> None:
    """Measure every attention at every length until one does not fit in memory, and print the slopes."""
    lengths, seconds = (QUICK_LENGTHS, QUICK_SECONDS) if quick else (LENGTHS, SECONDS)
    with Isolated() as isolated:
        for name in NAMES:
            if unavailable(name):
                continue
            last: Point = {}
            for length in lengths:
                if 4 * last.get("step_seconds", 0.0) > LONGEST_CALL:
                    break
                call = partial(isolated.measure, partial(prepare, name), length, seconds)
                point = results.measure(_key(name, length), call)
                if point is None or "does_not_fit" in point:
                    break
                last = point
    for name, (seconds_slope, peak_slope) in slopes(results).items():
        if seconds_slope and peak_slope:
            print(f"{name}: time ~ N^{seconds_slope:.2f}, memory ~ N^{peak_slope:.2f}")


def prepare(name: str, length: int) -> Callable[[], object]:
    """Return a call of forward and backward on one sequence."""
    attend = attention(name)
    generator = torch.Generator().manual_seed(length)
    q, k, v, g = (torch.randn(1, HEADS, length, WIDTH, generator=generator) for _ in range(4))
    leaves = [tensor.requires_grad_() for tensor in (q, k, v)]
    # the library's LSH ignores the keys
    return lambda: torch.autograd.grad(attend(*leaves), leaves, g, allow_unused=name.startswith("lsh"))


def slope(points: dict[int, float]) -> float | None:
    """Return p of value ~ N^p by least squares, from SLOPE_FROM on; None where fewer than two such points exist."""
    kept = {length: value for length, value in points.items() if length >= SLOPE_FROM and value > 0}
    if len(kept) < 2:
        return None
    return float(np.polyfit(np.log(list(kept)), np.log(list(kept.values())), 1)[0])


def slopes(results: Results) -> dict[str, tuple[float | None, float | None]]:
    """Return the slopes of time and of memory, by attention."""
    measured = {name: _points(results, name) for name in NAMES}
    seconds, peaks = (values(measured, field) for field in ("step_seconds", "peak_bytes"))
    return {name: (slope(seconds[name]), slope(peaks[name])) for name in NAMES}


def summary(results: Results) -> str:
    """Return a sentence on the growth with N; empty for a quick run, and where the slopes are missing."""
    found = slopes(results)
    (softmax, fused), (_, unfused), (linear, of_linear) = (
        found[name] for name in ("softmax", "softmax, unfused", "linear")
    )
    if results.quick or None in (softmax, fused, unfused, linear, of_linear):
        return ""
    return (
        f"Over N, the time of softmax grows as N^{softmax:.2f} and that of linear attention as N^{linear:.2f}. Their"
        f" memory grows as N^{unfused:.2f} and N^{of_linear:.2f}. In Figure 1 both have exponents of 2 and 1. The fused"
        f" softmax of torch, which is younger than the paper, needs memory as N^{fused:.2f}."
    )


def section(results: Results) -> str:
    """Return the section of the page: slopes, both tables and both plots."""
    if not results.points:
        return "Not run.\n"
    measured = {name: _points(results, name) for name in NAMES}
    seconds, peaks = (values(measured, field) for field in ("step_seconds", "peak_bytes"))
    rows = [[name, *(number(value) for value in both)] for name, both in slopes(results).items()]
    parts = [
        f"Forward and backward of one causal sequence, {HEADS} heads of {WIDTH}, float32. Slopes p of N^p from"
        f" N = {SLOPE_FROM:,} on; linear growth is 1, quadratic growth 2:\n",
        table(["attention", "time ~ N^p", "memory ~ N^p"], rows),
        "Milliseconds:\n",
        _table(measured, seconds, 1e3),
        plot_over_n(results, "scaling-time", "Time of forward and backward", seconds, 1e3, "ms"),
        "Peak memory, MB:\n",
        _table(measured, peaks, 1e-6),
        plot_over_n(results, "scaling-memory", "Peak memory of forward and backward", peaks, 1e-6, "MB"),
    ]
    parts += not_measured(NAMES)
    parts.append(
        "softmax is torch's fused kernel, which keeps no N x N matrix: its memory grows with N, its time with N^2. The"
        " paper's baseline is the unfused one. linear, reference is a loop over positions, which fast ones are"
        " held to: torch adds up its gradient in a tensor of N for each of them. The memory of LSH holds the N x N mask"
        " that its library adds. An empty"
        f" cell was not measured: one call would take more than about {LONGEST_CALL:.0f} s, or the time was up.\n"
    )
    return "\n".join(parts)


def _key(name: str, length: int) -> str:
    return f"{name}/{length}"


def _points(results: Results, name: str) -> dict[int, Point]:
    lengths = sorted({*LENGTHS, *QUICK_LENGTHS})
    found = {length: results.get(_key(name, length)) for length in lengths}
    return {length: point for length, point in found.items() if point is not None}


def values(measured: dict[str, dict[int, Point]], field: str) -> dict[str, dict[int, float]]:
    """Return a field of the points over N, by attention, where it was measured."""
    return {name: {n: p[field] for n, p in points.items() if field in p} for name, points in measured.items()}


def not_measured(names: Sequence[str]) -> list[str]:
    """Return a sentence for each attention that cannot be measured here."""
    return [f"{name}: not measured, {reason}.\n" for name in names if (reason := unavailable(name))]


def _table(measured: dict[str, dict[int, Point]], values: dict[str, dict[int, float]], unit: float) -> str:
    lengths = sorted({length for points in measured.values() for length in points})
    rows = []
    for name, points in measured.items():
        cells, full = [], False
        for length in lengths:
            full = full or "does_not_fit" in points.get(length, {})
            value = values[name].get(length)
            cells.append("does not fit" if full else number(None if value is None else unit * value))
        rows.append([name, *cells])
    return table(["N", *(f"{length:,}" for length in lengths)], rows)


def plot_over_n(
    results: Results, file: str, title: str, values: dict[str, dict[int, float]], unit: float, label: str
) -> str:
    """Draw values over N, by attention, in that unit."""
    curves = {name: [[(n, unit * value) for n, value in points.items()]] for name, points in values.items() if points}
    return plot(results, file, title, curves, "N", label)
