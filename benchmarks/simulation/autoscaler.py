"""Serve's autoscaler on images in flight (ray 2.60, autoscaling_policy.py): replicas = mean images / target.

The number grows after more have been needed for a delay. It never falls here: every case ends long before Serve's
delay of ten minutes. Knows nothing of the replicas themselves.
"""

from collections import deque
from dataclasses import dataclass
from math import ceil

SAMPLE_SECONDS = 1.0  # between two calls of `target`


@dataclass(frozen=True)
class Scaling:
    """Its settings, times in seconds."""

    target: float  # images in flight for each replica
    most: int  # replicas
    up_delay: float = 30.0
    look_back: float = 30.0
    metrics_interval: float = 10.0


class Autoscaler:
    """Called once every SAMPLE_SECONDS."""

    def __init__(self, scaling: Scaling) -> None:
        self.scaling = scaling
        self.samples: deque[int] = deque(maxlen=round(scaling.look_back / SAMPLE_SECONDS))
        self.mean_images = 0.0
        self.since: float | None = None  # when more replicas than present were first needed

    def target(self, now: float, images: int, replicas: int) -> int:
        """Return the number of replicas for so many images in flight, given the present number."""
        scaling = self.scaling
        self.samples.append(images)
        if round(now / SAMPLE_SECONDS) % round(scaling.metrics_interval / SAMPLE_SECONDS) == 0:
            self.mean_images = sum(self.samples) / len(self.samples)
        needed = min(scaling.most, ceil(self.mean_images / scaling.target))
        if needed <= replicas:
            self.since = None
            return replicas
        self.since = now if self.since is None else self.since
        if now - self.since < scaling.up_delay:
            return replicas
        self.since = None
        return needed
