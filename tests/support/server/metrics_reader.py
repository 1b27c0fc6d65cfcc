"""Reader of GET /metrics, which parses it as Prometheus does."""

from collections.abc import Callable

import httpx
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from tests.support.waiting import wait_for


class Metrics:
    """All samples of one scrape."""

    def __init__(self, client: httpx.Client | TestClient) -> None:
        families = text_string_to_metric_families(client.get("/metrics").text)
        self.samples = [sample for family in families for sample in family.samples]

    def of(self, name: str, **labels: str) -> float:
        """The sum of the samples `scanline_{name}` that have those labels; there must be one."""
        named = [sample for sample in self.samples if sample.name == f"scanline_{name}"]
        found = [sample.value for sample in named if labels.items() <= sample.labels.items()]
        assert found, (name, labels)
        return sum(found)


def wait_for_metrics(client: httpx.Client, condition: Callable[[Metrics], bool]) -> Metrics:
    """Scrapes until the condition holds."""

    def found() -> Metrics | None:
        metrics = Metrics(client)
        return metrics if condition(metrics) else None

    return wait_for(found, "a scrape that satisfies the condition")


def wait_until_idle(client: httpx.Client) -> Metrics:
    """Scrapes until no image is accepted or in flight, and no request is being answered."""
    names = ("num_images_reserved", "num_images_running", "num_jobs")
    return wait_for_metrics(client, lambda now: not any(now.of(name) for name in names))
