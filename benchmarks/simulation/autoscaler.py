"""Serve's autoscaler on images in flight (ray 2.60, autoscaling_policy.py): replicas = mean images / target.

The number changes after the same direction has been needed for a delay. Knows nothing of the replicas themselves.
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
    least: int = 1
    up_delay: float = 30.0
    down_delay: float = 600.0
    look_back: float = 30.0
    metrics_interval: float = 10.0


class Autoscaler:
    """Called once every SAMPLE_SECONDS."""

    def __init__(self, scaling: Scaling) -> None:
        self.scaling = scaling
        self.samples: deque[int] = deque(maxlen=round(scaling.look_back / SAMPLE_SECONDS))
        self.mean_images = 0.0
        self.direction, self.since = 0, 0.0  # in which the number should change, since when

    def target(self, now: float, images: int, replicas: int) -> int:
        """Return the number of replicas for so many images in flight, given the present number."""
        scaling = self.scaling
        self.samples.append(images)
        if round(now / SAMPLE_SECONDS) % round(scaling.metrics_interval / SAMPLE_SECONDS) == 0:
            self.mean_images = sum(self.samples) / len(self.samples)
        needed = min(scaling.most, max(scaling.least, ceil(self.mean_images / scaling.target)))
        direction = (needed > replicas) - (needed < replicas)
        if direction != self.direction:
            self.direction, self.since = direction, now
        delay = scaling.up_delay if direction > 0 else scaling.down_delay
        if not direction or now - self.since < delay:
            return replicas
        self.direction, self.since = 0, now
        return needed
