"""Metrics of one replica in Ray's own exporter, which every machine of a cluster offers to Prometheus.

Ray prefixes the names with `ray_` and adds Serve's tags: `ray_scanline_num_images_running`.
"""

from collections.abc import Callable

from ray.serve import metrics

from scanline.server.engine.client.handle import EngineHandle

VALUES: dict[str, tuple[str, Callable[[EngineHandle], float]]] = {
    "scanline_num_images_running": ("Images in slots.", lambda engine: engine.stats.images_running),
    "scanline_num_images_waiting": ("Images that wait for a slot.", lambda engine: engine.stats.images_waiting),
    "scanline_batch_slots": ("Images that can be painted at once.", lambda engine: engine.slots),
    "scanline_generation_tokens": ("Bytes painted by this engine.", lambda engine: engine.stats.painted_bytes),
    "scanline_engine_restarts": ("Engines started after the first one.", lambda engine: engine.restarts),
    "scanline_engine_up": ("1 while the engine accepts work.", lambda engine: engine.is_ready),
    "scanline_engine_heartbeat_age_seconds": (
        "Seconds since the engine's last message.",
        lambda engine: engine.heartbeat_age,
    ),
}


class ReplicaGauges:
    """One gauge for each of VALUES, with the label `model_name`."""

    def __init__(self, model: str) -> None:
        self.gauges = {name: metrics.Gauge(name, about, ("model_name",)) for name, (about, _) in VALUES.items()}
        for gauge in self.gauges.values():
            gauge.set_default_tags({"model_name": model})

    def update(self, engine: EngineHandle) -> None:
        """Set all gauges to the engine's present values."""
        for name, (_, value) in VALUES.items():
            self.gauges[name].set(value(engine))
