"""The metrics of a server with several API processes: counts are added up, an
engine's own values are taken once.

What a process has counted stays when it ends, as far as it was ever
asked: counters never run backwards.
"""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from scanline.server.api.routes.metrics import OF_ENGINE, PREFIX

LARGEST = {
    *(PREFIX + name for name in OF_ENGINE),
    PREFIX + "build_info",
    PREFIX + "event_loop_lag_max_seconds",
    "process_max_fds",
    "process_start_time_seconds",
}  # every other metric is a sum
COUNTED = ("counter", "histogram")  # types of what stays when a process ends


class MergedMetrics(Collector):
    """The metrics of several processes as those of one."""

    def __init__(self, processes: Iterable[list[Metric]]) -> None:
        self.processes = processes

    def collect(self) -> list[Metric]:
        """Return each metric once, in the order of the first process that has it."""
        merged: dict[str, Metric] = {}
        values: dict[str, dict[tuple[str, frozenset[tuple[str, str]]], Sample]] = {}
        for family in (family for families in self.processes for family in families):
            if family.name not in merged:
                merged[family.name] = Metric(family.name, family.documentation, family.type)
            samples = values.setdefault(family.name, {})
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                if key in samples:
                    before = samples[key].value
                    value = (
                        max(before, sample.value)
                        if family.name in LARGEST
                        else before + sample.value
                    )
                    sample = sample._replace(value=value)
                samples[key] = sample
        for name, samples in values.items():
            merged[name].samples = list(samples.values())
        return list(merged.values())


def counted(processes: Iterable[list[Metric]]) -> list[Metric]:
    """Return what processes that have ended have counted, as the metrics of one."""
    return [family for family in MergedMetrics(processes).collect() if family.type in COUNTED]
