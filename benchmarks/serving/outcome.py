"""Requests of one case of load in one round, and how several rounds are summed up and shown."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.table import Table

from tests.support.server.metrics_reader import Metrics

FRAMES = "stream_frames_coalesced_total"


@dataclass
class Outcome:
    """The requests of one case in one round."""

    before: Metrics
    after: Metrics = field(init=False)
    offline: float = 0.0  # images a second of the offline generator, before and after
    offline_processor: float = 0.0  # seconds of an image
    ratio: float = 0.0  # served over offline
    seconds: float = 0.0
    images: int = 0  # right ones
    wrong: int = 0  # requests
    failed: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    firsts: list[float] = field(default_factory=list)
    processor: Counter[str] = field(default_factory=Counter)  # seconds, by process

    def quantiles(self, name: str, *wanted: float) -> list[float]:
        """Return quantiles of what a histogram counted meanwhile, linear
        within a bucket; NaN of nothing.
        """
        counts: Counter[float] = Counter()
        for metrics, sign in ((self.before, -1), (self.after, 1)):
            for sample in metrics.samples:
                if sample.name == f"scanline_{name}_bucket":
                    counts[float(sample.labels["le"])] += sign * sample.value
        bounds = sorted(counts)
        if not (total := counts[bounds[-1]]):
            return [float("nan")] * len(wanted)
        shares = [0.0, *(counts[bound] / total for bound in bounds)]
        finite = [0.0, *(min(bound, bounds[-2]) for bound in bounds)]
        return [float(np.interp(share, shares, finite)) for share in wanted]


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """Return the rounds of one case: medians of rates, quantiles (p50,
    p99) of seconds, costs of an image.
    """
    latencies = [latency for outcome in outcomes for latency in outcome.latencies] or [np.nan]
    firsts = [first for outcome in outcomes for first in outcome.firsts]
    queue, server_first = (
        np.nanmean([outcome.quantiles(name, 0.5, 0.99) for outcome in outcomes], axis=0)
        for name in ("request_queue_time_seconds", "time_to_first_token_seconds")
    )
    failed = sum((outcome.failed for outcome in outcomes), Counter())
    images = max(1, sum(outcome.images for outcome in outcomes))
    processor = {
        name: sum(o.processor[name] for o in outcomes) / images for name in ("api", "engine")
    }
    processor["offline"] = float(np.median([o.offline_processor for o in outcomes]))
    return {
        "requests": sum(len(outcome.latencies) for outcome in outcomes) + failed.total(),
        "images_per_second": float(np.median([o.images / o.seconds for o in outcomes])),
        "offline_images_per_second": float(np.median([o.offline for o in outcomes])),
        "served_over_offline": float(np.median([o.ratio for o in outcomes])),
        "served_over_offline_of_each_round": [o.ratio for o in outcomes],
        "queue_seconds": queue.tolist(),
        "first_pixel_seconds": np.quantile(firsts, [0.5, 0.99]).tolist()
        if firsts
        else server_first.tolist(),
        "request_seconds": np.quantile(latencies, [0.5, 0.99]).tolist(),
        "processor_ms_of_image": {name: 1e3 * seconds for name, seconds in processor.items()},
        "frames_merged": sum(o.after.of(FRAMES) - o.before.of(FRAMES) for o in outcomes),
        "wrong": sum(o.wrong for o in outcomes),
        "failed": dict(failed),
    }


def table(results: dict[str, dict[str, Any]], rounds: int) -> Table:
    latencies = ("queue", "first pixel", "request")
    columns = (
        "case",
        "requests",
        "images/s",
        "served/offline",
        *(f"{name} s" for name in latencies),
    )
    costs = ("API ms", "engine ms", "offline ms")
    shown = Table(
        *columns,
        *costs,
        "wrong",
        "failed",
        title=f"medians of {rounds} rounds; latencies p50 / p99",
    )
    for name, result in results.items():
        quantiles = (result[f"{latency.replace(' ', '_')}_seconds"] for latency in latencies)
        shown.add_row(
            name,
            str(result["requests"]),
            f"{result['images_per_second']:.1f} of {result['offline_images_per_second']:.1f}",
            f"{result['served_over_offline']:.2f}",
            *(f"{p50:.3f} / {p99:.3f}" for p50, p99 in quantiles),
            *(f"{milliseconds:.3f}" for milliseconds in result["processor_ms_of_image"].values()),
            str(result["wrong"]),
            str(sum(result["failed"].values())),
        )
    return shown
