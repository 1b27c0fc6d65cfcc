"""The number of replicas that a model needs: as many as hold its images
in flight in a share of their slots.

Serve counts requests, and a request may be for one image or for thousands. So each replica reports
the images that all ingresses have accepted and not yet answered
(`Replica.record_autoscaling_stats`). Bounds and delays are Serve's own. Serve pickles this module
by value for its controller, so it must not import anything of this package.
"""

from math import ceil
from typing import Any

from ray.serve.config import AutoscalingContext


def target_replicas(context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
    """Return the number of replicas, and no state. Without reports the current number stays."""
    reports = context.aggregated_metrics or {}
    images = reports.get("images", {}).values()
    targets = reports.get("target_images", {}).values()
    target = sum(targets)  # of all replicas
    if not images or not target:
        return context.target_num_replicas, {}
    # Every replica reports the images of the whole service; the
    # largest report is the most recent one.
    needed = max(images) * len(targets) / target
    return ceil(needed), {}
