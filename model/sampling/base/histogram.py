"""Histograms as Prometheus has them, as plain numbers that cross the process
boundary; adding costs a bisection.
"""

from bisect import bisect_left
from dataclasses import dataclass, field

# seconds
LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
STEPS = (
    1e-5,
    2.5e-5,
    5e-5,
    1e-4,
    2.5e-4,
    5e-4,
    1e-3,
    2.5e-3,
    5e-3,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1,
    2.5,
)
BATCHES = tuple(2**power for power in range(15))  # images


@dataclass
class Histogram:
    """Counts of values up to each bound, the last of those above all; changed in place by `add`."""

    bounds: tuple[float, ...]
    counts: list[int] = field(default_factory=list)
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def add(self, value: float, times: int = 1) -> None:
        """Count a value, or several that are equal."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def __add__(self, other: "Histogram") -> "Histogram":
        """Return the histogram of both, whose bounds are the same."""
        assert self.bounds == other.bounds
        counts = [ours + theirs for ours, theirs in zip(self.counts, other.counts, strict=True)]
        return Histogram(self.bounds, counts, self.sum + other.sum)
