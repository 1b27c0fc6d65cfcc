"""What a replica tells Ray's own metrics, which every machine of the cluster shows Prometheus, with Serve's tags.

Ray puts `ray_` before the names: `ray_scanline_num_images_running`.
"""

from collections.abc import Callable

from ray.serve import metrics

from scanline.server.engine.client.handle import EngineHandle

VALUES: dict[str, tuple[str, Callable[[EngineHandle], float]]] = {
    "scanline_num_images_running": ("Images in slots.", lambda desk: desk.stats.images_running),
    "scanline_num_images_waiting": ("Images without a slot.", lambda desk: desk.stats.images_waiting),
    "scanline_batch_slots": ("Images that can be painted at once.", lambda desk: desk.slots),
    "scanline_generation_tokens": ("Bytes painted by this engine.", lambda desk: desk.stats.painted_bytes),
    "scanline_engine_restarts": ("Engines started after the first one.", lambda desk: desk.restarts),
    "scanline_engine_up": ("Whether the engine can paint.", lambda desk: desk.is_ready),
    "scanline_engine_heartbeat_age_seconds": ("Since it was last heard of.", lambda desk: desk.heartbeat_age),
}


class Gauges:
    """One of each kind, under the label `model_name`."""

    def __init__(self, model: str) -> None:
        self.gauges = {name: metrics.Gauge(name, about, ("model_name",)) for name, (about, _) in VALUES.items()}
        for gauge in self.gauges.values():
            gauge.set_default_tags({"model_name": model})

    def show(self, desk: EngineHandle) -> None:
        """Takes what the desk tells now."""
        for name, (_, value) in VALUES.items():
            self.gauges[name].set(value(desk))
