"""A minimal collector of OpenTelemetry traces over OTLP/HTTP."""

import threading
from contextlib import contextmanager

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.local_server import answering
from tests.support.waiting import PATIENCE


class Collector:
    def __init__(self):
        self.spans = []
        self.services = set()
        self.keys = set()  # values of the header x-key
        self.arrived = threading.Condition()

    def take(self, body):
        with self.arrived:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                named = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
                self.services.add(named["service.name"])
                for scope in resource.scope_spans:
                    self.spans += scope.spans
            self.arrived.notify_all()

    def wait_for(self, matches, count=1):
        def found():
            return [span for span in self.spans if matches(span)]

        with self.arrived:
            assert self.arrived.wait_for(lambda: len(found()) >= count, PATIENCE), [
                span.name for span in self.spans
            ]
            return found()


def attributes(span):
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes
    }


@contextmanager
def collecting():
    """The address of a collector and the collector, for as long as the context lasts."""
    collector = Collector()

    def take(exchange):
        assert exchange.path == "/v1/traces"
        collector.keys.add(exchange.headers["x-key"])
        collector.take(exchange.body())
        exchange.begin()

    with answering(take) as port:
        yield f"http://127.0.0.1:{port}", collector
