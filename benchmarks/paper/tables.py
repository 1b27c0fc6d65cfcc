"""Tables 1, 2, 4 and 5: images/s at the best batch, seconds of one image, bytes of its state, and bits/dim.

`painting` measures time, `equal_work` trains. PAPER holds what the paper's tables say, on a GPU and a CPU of 2020.
"""

from functools import partial

from benchmarks.paper import equal_work, painting
from benchmarks.paper.markdown import number, table
from benchmarks.paper.painting import GROWING, METHODS, QUICK_SIZES, SIZES, Size
from benchmarks.paper.results import Point, Results

SECONDS, QUICK_SECONDS = 6.0, 0.05  # of timed calls for each method and batch
LINEAR, OURS = "linear, authors", "linear"
# images/s on a GPU (Tables 1 and 2) and seconds of one image on a CPU (Table 5)
PAPER = {
    "mnist": {
        "softmax": (0.45, 72.6),
        "stateful softmax": (7.56, 7.4),
        "lsh-1": (0.68, 46.0),
        "lsh-4": (0.27, 112.0),
        LINEAR: (142.8, 5.5),
    },
    "cifar10": {
        "softmax": (0.004, 8651.4),
        "stateful softmax": (0.32, 71.9),
        "lsh-1": (0.015, 2318.9),
        "lsh-4": (0.005, 5263.7),
        LINEAR: (17.85, 45.1),
    },
}
HEADER = [
    "", "images/s", "batch", "authors' linear / this", "our linear / this", "the paper",
    "s for one image", "this / authors' linear", "this / our linear", "the paper", "state bytes",
]  # fmt: skip


def run(results: Results, quick: bool) -> None:
    """Measure every method at both sizes, the cheap ones first, then train in what is left of the time."""
    seconds = QUICK_SECONDS if quick else SECONDS
    for size in QUICK_SIZES if quick else SIZES:
        for method in reversed(METHODS):
            for batch in size.batches(method):
                if painting.missing(size, method, batch) is None:
                    key = _key(size, method, batch)
                    results.measure(key, partial(painting.measure, size, method, batch, seconds))
    equal_work.run(results, quick)


def section(results: Results) -> str:
    """Return the section of the page: a table for each size, and bits/dim by equal work."""
    if not results.points:
        return "Not run.\n"
    parts = []
    for size in QUICK_SIZES if results.quick else SIZES:
        measured = {method: _points(results, size, method) for method in METHODS}
        config = size.config
        parts += [
            f"### {size.name}: {config.layers} layers, {config.heads} heads of {config.value_width},"
            f" {config.bytes:,} bytes\n",
            table(HEADER, [_row(size, method, measured) for method in METHODS]),
            *_left_out(size, measured),
        ]
    parts += [
        "~ marks what is extrapolated: of steps that cost more from byte to byte, a few are timed and summed by their"
        " growth (`benchmarks/paper/painting.py`). Other numbers are of steps that all cost the same, or of whole"
        ' images. Methods without a state compute every byte from all bytes before it. "The paper" is its ratio to its'
        " own linear attention, in bulk on a GPU and for one image on a CPU.\n",
        "### bits/dim\n",
        equal_work.section(results),
    ]
    return "\n".join(parts)


def summary(results: Results) -> str:
    """Return sentences that set the ratios of this machine beside those of the paper; empty for a quick run."""
    sentences: list[str] = []
    if results.quick:
        return ""
    for size in SIZES:
        best = {method: _best(_points(results, size, method)) for method in METHODS}
        softmax, authors, ours = (best[method] for method in ("softmax", LINEAR, OURS))
        if softmax and ours:
            paper = PAPER[size.name]
            times = _ratio(ours, softmax)
            sentence = f"At the {size.name} size our linear attention paints {times} times the images/s of softmax"
            if authors:
                sentence += f", the authors' library {_ratio(authors, softmax)} times"
            sentences.append(f"{sentence}; in the paper {number(paper[LINEAR][0] / paper['softmax'][0])} times.")
    if sentences:
        sentences.append(
            "The paper measured on a GPU, where a step of linear attention keeps thousands of images in flight. Its"
            " softmax computed whole N x N matrices. Here all run on the same processor, and softmax is torch's fused"
            " kernel."
        )
    sentences.append(equal_work.summary(results))
    return " ".join(sentence for sentence in sentences if sentence)


def _key(size: Size, method: str, batch: int) -> str:
    return f"{size.name}/{method}/{batch}"


def _points(results: Results, size: Size, method: str) -> dict[int, Point]:
    found = {batch: results.get(_key(size, method, batch)) for batch in size.batches(method)}
    return {batch: point for batch, point in found.items() if point is not None}


def _best(points: dict[int, Point]) -> float | None:
    return max((point["images_per_second"] for point in points.values()), default=None)


def _ratio(first: float, second: float) -> str:
    return number(first / second)


def _row(size: Size, method: str, measured: dict[str, dict[int, Point]]) -> list[str]:
    points, marked = measured[method], "~" if method in GROWING else ""
    if not points:
        return [method, *[""] * (len(HEADER) - 1)]
    best = _best(points)
    assert best is not None
    batch = next(batch for batch, point in points.items() if point["images_per_second"] == best)
    cells = [method, marked + number(best), str(batch)]
    for linear in (LINEAR, OURS):
        other = _best(measured[linear])
        cells.append(_ratio(other, best) if other else "")
    paper = PAPER[size.name]
    cells.append(_ratio(paper[LINEAR][0], paper[method][0]) if method in paper else "")
    one = points[1]["image_seconds"] if 1 in points else None
    cells.append(marked + number(one) if one else "")
    for linear in (LINEAR, OURS):
        other = measured[linear][1]["image_seconds"] if 1 in measured[linear] else None
        cells.append(_ratio(one, other) if one and other else "")
    cells.append(_ratio(paper[method][1], paper[LINEAR][1]) if method in paper else "")
    state = points[batch]["state_bytes"]
    return [*cells, f"{state:,}" if state else "none"]


def _left_out(size: Size, measured: dict[str, dict[int, Point]]) -> list[str]:
    """Return why batches were not measured, a sentence each."""
    lines = []
    for method, points in measured.items():
        for batch in size.batches(method):
            if batch not in points:
                reason = painting.missing(size, method, batch) or "the time was up"
                lines.append(f"{method}, batch {batch}: not measured, {reason}.\n")
    return lines
