"""How many replicas a model wants: as many as hold its images in flight in a share of their slots.

Serve counts requests, of which one may be for an image or for thousands. So replicas tell the images that all fronts
have accepted and not yet answered (`Replica.record_autoscaling_stats`); bounds and delays stay Serve's own. Serve
pickles this module by value for its controller: it imports nothing of ours.
"""

from math import ceil
from typing import Any

from ray.serve.config import AutoscalingContext


def by_images(context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
    """The number of replicas wanted, and no state; as many as there are while none has told anything."""
    told = context.aggregated_metrics or {}
    images, room = (list(told.get(name, {}).values()) for name in ("images", "room"))
    if not images or not sum(room):
        return context.target_num_replicas, {}
    return ceil(max(images) * len(room) / sum(room)), {}
