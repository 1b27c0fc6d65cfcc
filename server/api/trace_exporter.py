"""Where traces go: to an OpenTelemetry collector, over HTTP, when one is named; the extra `otel` has what it takes.

Named by --otlp-endpoint, or by OpenTelemetry's own OTEL_EXPORTER_OTLP_ENDPOINT, which with its sisters sets the rest.
"""

import os
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


def provider(endpoint: str | None) -> "TracerProvider | None":
    """What makes spans and sends them, the last ones when it is shut down; None where nobody asked.

    ValueError where the packages are not there.
    """
    if endpoint is None and not any(os.environ.get(name) for name in VARIABLES):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise ValueError("--otlp-endpoint: traces need the extra otel: pip install 'scanline[otel]'") from None
    exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces") if endpoint else OTLPSpanExporter()
    own = {"service.name": "scanline", "service.version": version("scanline")}
    provider = TracerProvider(resource=Resource.create().merge(Resource(own)) if _unnamed() else Resource.create(own))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _unnamed() -> bool:
    return not os.environ.get("OTEL_SERVICE_NAME")
