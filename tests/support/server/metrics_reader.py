"""Reader of GET /metrics, with a parser of its own: tests scrape often, and
Prometheus's takes ten times as long.
"""

import re
from typing import NamedTuple

from tests.support.waiting import wait_for

SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


class Metrics:
    def __init__(self, client):
        found = SAMPLE.findall(client.get("/metrics").text)
        self.samples = [
            Sample(name, dict(LABEL.findall(labels)), float(value)) for name, labels, value in found
        ]

    def of(self, name, **labels):
        """The sum of the samples `scanline_{name}` that have those labels; there must be one."""
        named = [sample for sample in self.samples if sample.name == f"scanline_{name}"]
        found = [sample.value for sample in named if labels.items() <= sample.labels.items()]
        assert found, (name, labels)
        return sum(found)

    def errors(self, code):
        """How many errors of that code have been counted, which may be none."""
        named = [sample for sample in self.samples if sample.name == "scanline_errors_total"]
        return sum(sample.value for sample in named if sample.labels["code"] == code)


def wait_for_metrics(client, condition):
    def found():
        metrics = Metrics(client)
        return metrics if condition(metrics) else None

    return wait_for(found, "a scrape that satisfies the condition")


ENGINES = "num_requests_running", "num_requests_waiting", "num_images_running", "num_images_scoring"
QUEUES = "num_images_waiting", "num_images_reserved", "num_jobs", "unread_bytes"
CONNECTIONS = "connection_arriving_bytes", "connection_unread_bytes", "websocket_connections"


def wait_until_empty(client):
    """Scrapes until every room, budget and count is 0, but for this client's own connection."""
    names = ENGINES + QUEUES + CONNECTIONS
    return wait_for_metrics(
        client, lambda now: now.of("connections") == 1 and not any(map(now.of, names))
    )


def wait_until_idle(client, *more):
    """Scrapes until no image is accepted or in flight, no request is
    being answered, and `more` are 0.
    """
    names = ("num_images_reserved", "num_images_running", "num_jobs", *more)
    return wait_for_metrics(client, lambda now: not any(now.of(name) for name in names))
