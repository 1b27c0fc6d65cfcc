"""Metrics of one replica in Ray's own exporter, which every machine of a cluster offers to Prometheus.

Names and values are those of GET /metrics. Ray prefixes the names with `ray_` and adds Serve's tags:
`ray_scanline_num_images_running`.
"""

from ray.serve import metrics

from scanline.server.api.routes.metrics import COUNTERS, GAUGES, LOADED_GAUGES, PREFIX
from scanline.server.engine.handle import EngineHandle

EXPORTED = (
    *("num_images_running", "num_images_waiting", "batch_slots", "generation_tokens"),
    *("engine_restarts", "engine_up", "engine_heartbeat_age_seconds"),
)


class ReplicaGauges:
    """One gauge for each of EXPORTED, with the label `model_name`."""

    def __init__(self, model: str) -> None:
        known = GAUGES | LOADED_GAUGES | COUNTERS
        self.values = {}
        for name in EXPORTED:
            about, value = known[name]
            gauge = metrics.Gauge(PREFIX + name, about, ("model_name",))
            gauge.set_default_tags({"model_name": model})
            self.values[gauge] = value

    def update(self, engine: EngineHandle) -> None:
        """Set all gauges to the engine's present values."""
        for gauge, value in self.values.items():
            gauge.set(value(engine))
