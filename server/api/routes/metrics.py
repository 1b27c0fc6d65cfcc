"""GET /metrics: Prometheus' text format, or OpenMetrics where that is asked for."""

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from scanline.server.api.openapi import errors


def router(registry: CollectorRegistry) -> APIRouter:
    """The route over `registry`."""
    routes = APIRouter(tags=["metrics"])

    @routes.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **errors(401)})
    async def metrics(request: Request) -> Response:
        """Tells the server's numbers; asks no engine for anything."""
        encode, media_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(registry), headers={"content-type": media_type})

    return routes
