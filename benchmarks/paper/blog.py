"""The numbers of a post, "Understanding linear attention in Transformers are RNNs": linear against softmax over N.

Non-causal, forward alone, one sequence and one head, float32, as there: time at N = 4,000 and width 1,024, memory at
width 64. softmax is torch's, fused and unfused; the post's own is the unfused one. linear is eq. 4-6 by this project's
kernels and by the authors' library.
"""

from collections.abc import Callable
from functools import partial

import torch

from benchmarks.paper.attentions import attention, unavailable
from benchmarks.paper.isolated import Isolated
from benchmarks.paper.markdown import number, table
from benchmarks.paper.results import Point, Results
from benchmarks.paper.scaling import not_measured, plot_over_n, slope, values

WIDE, NARROW = 1024, 64  # width of the head, for time and for memory
TIMED = 4000  # positions
LENGTHS = (1024, 2048, 4096, 8192, 16384, 24576)  # with the post's 4,096 and 4,096 x 6
QUICK_WIDE, QUICK_TIMED, QUICK_LENGTHS = 64, 200, (128, 256)
SECONDS, QUICK_SECONDS = 1.0, 0.05
CLAIMED_SPEED_UP = 5.57 / 2.24  # V100, N = 4,000, width 1,024
CLAIMED_MB = {4096: {"softmax, unfused": 132, "linear": 12}, 24576: {"softmax, unfused": 4096, "linear": 72}}
NAMES = ("softmax", "softmax, unfused", "linear, authors", "linear")


def run(results: Results, quick: bool) -> None:
    """Measure the post's one time, then time and memory over N."""
    wide, timed, lengths = (QUICK_WIDE, QUICK_TIMED, QUICK_LENGTHS) if quick else (WIDE, TIMED, LENGTHS)
    seconds = QUICK_SECONDS if quick else SECONDS
    cases = [(wide, timed), *((NARROW, length) for length in lengths)]
    with Isolated() as isolated:
        for width, length in cases:
            for name in NAMES:
                if unavailable(name) is None:
                    call = partial(isolated.measure, partial(prepare, name, width), length, seconds)
                    results.measure(_key(name, width, length), call)


def prepare(name: str, width: int, length: int) -> Callable[[], object]:
    """Return a call of forward on one sequence [1, 1, N, width]."""
    generator = torch.Generator().manual_seed(length)
    q, k, v = (torch.randn(1, 1, length, width, generator=generator) for _ in range(3))
    attend = attention(name, causal=False)

    def call() -> torch.Tensor:
        with torch.no_grad():
            return attend(q, k, v)

    return call


def section(results: Results) -> str:
    """Return the section of the page: the post's speed-up, its two memory figures, and both over N."""
    if not results.points:
        return "Not run.\n"
    over_n = {name: _over_n(results, name) for name in NAMES}
    seconds, peaks = (values(over_n, field) for field in ("step_seconds", "peak_bytes"))
    slopes = [[name, number(slope(seconds[name])), number(slope(peaks[name]))] for name in NAMES]
    parts = [
        "Non-causal attention, forward alone, one head, float32. The post measured on a V100.\n",
        _speed_up(results),
        _memory(over_n),
        table(["attention", "time ~ N^p", "memory ~ N^p"], slopes),
        plot_over_n(results, "blog-time", "Time of forward, non-causal", seconds, 1e3, "ms"),
        plot_over_n(results, "blog-memory", "Peak memory of forward, non-causal", peaks, 1e-6, "MB"),
    ]
    return "\n".join([*parts, *not_measured(NAMES)])


def _speed_up(results: Results) -> str:
    width, length = (QUICK_WIDE, QUICK_TIMED) if results.quick else (WIDE, TIMED)
    points = {name: results.get(_key(name, width, length)) or {} for name in NAMES}
    ours = points["linear"].get("step_seconds")
    rows = []
    for name, point in points.items():
        seconds = point.get("step_seconds")
        ratio = seconds / ours if seconds and ours else None
        claimed = number(CLAIMED_SPEED_UP) if name == "softmax, unfused" else ""
        rows.append([name, number(seconds and 1e3 * seconds), number(ratio), claimed])
    header = [f"N = {length:,}, width {width:,}", "ms", "times linear", "the post"]
    return table(header, rows)


def _memory(over_n: dict[str, dict[int, Point]]) -> str:
    rows = []
    for name, points in over_n.items():
        for length, claims in CLAIMED_MB.items():
            point = points.get(length)
            if point is not None:
                peak = "does not fit" if "does_not_fit" in point else number(1e-6 * point["peak_bytes"])
                rows.append([name, f"{length:,}", peak, number(claims.get(name))])
    return table([f"width {NARROW}", "N", "peak MB", "the post"], rows) if rows else ""


def _key(name: str, width: int, length: int) -> str:
    return f"{name}/{width}/{length}"


def _over_n(results: Results, name: str) -> dict[int, Point]:
    lengths = QUICK_LENGTHS if results.quick else LENGTHS
    found = {length: results.get(_key(name, NARROW, length)) for length in lengths}
    return {length: point for length, point in found.items() if point is not None}
