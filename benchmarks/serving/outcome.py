"""Requests of one case of load in one round, and how several rounds are summed up and shown."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.table import Table

from tests.support.server.metrics_reader import Metrics

FRAMES = "stream_frames_coalesced_total"
COLUMNS = (
    "case",
    "requests",
    "images/s",
    "served/offline",
    "queue s",
    "first pixel s",
    "request s",
    "API ms",
    "engine ms",
    "offline ms",
    "wrong",
    "failed",
)


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
        """Return quantiles of what a histogram counted meanwhile, linear within a bucket; NaN of
        nothing."""
        counts: Counter[float] = Counter()
        for metrics, sign in ((self.before, -1), (self.after, 1)):
            for sample in metrics.samples:
                if sample.name == f"scanline_{name}_bucket":
                    counts[float(sample.labels["le"])] += sign * sample.value
        bounds = sorted(counts)
        total = counts[bounds[-1]]
        if not total:
            return [float("nan")] * len(wanted)
        shares = [0.0, *(counts[bound] / total for bound in bounds)]
        finite = [0.0, *(min(bound, bounds[-2]) for bound in bounds)]
        return [float(np.interp(share, shares, finite)) for share in wanted]


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """Return the rounds of one case: medians of rates, quantiles (p50, p99) of seconds, costs of an
    image."""
    latencies: list[float] = []
    firsts: list[float] = []  # of websockets
    failed: Counter[str] = Counter()
    processor: Counter[str] = Counter()
    for outcome in outcomes:
        latencies += outcome.latencies
        firsts += outcome.firsts
        failed += outcome.failed
        processor.update(outcome.processor)
    images = max(1, sum(outcome.images for outcome in outcomes))
    offline = float(np.median([outcome.offline_processor for outcome in outcomes]))
    first_pixel = _server_quantiles(outcomes, "time_to_first_token_seconds")
    if firsts:
        first_pixel = np.quantile(firsts, [0.5, 0.99]).tolist()
    return {
        "requests": len(latencies) + failed.total(),
        "images_per_second": float(np.median([o.images / o.seconds for o in outcomes])),
        "offline_images_per_second": float(np.median([o.offline for o in outcomes])),
        "served_over_offline": float(np.median([o.ratio for o in outcomes])),
        "served_over_offline_of_each_round": [o.ratio for o in outcomes],
        "queue_seconds": _server_quantiles(outcomes, "request_queue_time_seconds"),
        "first_pixel_seconds": first_pixel,
        "request_seconds": np.quantile(latencies or [np.nan], [0.5, 0.99]).tolist(),
        "processor_ms_of_image": {
            "api": 1e3 * processor["api"] / images,
            "engine": 1e3 * processor["engine"] / images,
            "offline": 1e3 * offline,
        },
        "frames_merged": sum(o.after.of(FRAMES) - o.before.of(FRAMES) for o in outcomes),
        "wrong": sum(o.wrong for o in outcomes),
        "failed": dict(failed),
    }


def _server_quantiles(outcomes: list[Outcome], name: str) -> list[float]:
    """Return p50 and p99 of one of the server's histograms, as the mean over the rounds."""
    quantiles = [outcome.quantiles(name, 0.5, 0.99) for outcome in outcomes]
    means: list[float] = np.nanmean(quantiles, axis=0).tolist()
    return means


def table(results: dict[str, dict[str, Any]], rounds: int) -> Table:
    shown = Table(*COLUMNS, title=f"medians of {rounds} rounds; latencies p50 / p99")
    for name, result in results.items():
        cells = [
            name,
            str(result["requests"]),
            f"{result['images_per_second']:.1f} of {result['offline_images_per_second']:.1f}",
            f"{result['served_over_offline']:.2f}",
        ]
        for latency in ("queue_seconds", "first_pixel_seconds", "request_seconds"):
            p50, p99 = result[latency]
            cells.append(f"{p50:.3f} / {p99:.3f}")
        for cost in ("api", "engine", "offline"):
            cells.append(f"{result['processor_ms_of_image'][cost]:.3f}")
        cells.append(str(result["wrong"]))
        cells.append(str(sum(result["failed"].values())))
        shown.add_row(*cells)
    return shown
