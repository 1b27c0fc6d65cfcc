"""GET /healthz: the process lives. GET /readyz: it can paint now."""

from fastapi import APIRouter

from scanline.server.api.errors import ApiError
from scanline.server.api.middleware.draining import closed
from scanline.server.api.openapi import errors
from scanline.server.api.schemas import Readiness
from scanline.server.lifecycle import Lifecycle
from scanline.server.registry import ModelRegistry


def router(models: ModelRegistry, lifecycle: Lifecycle) -> APIRouter:
    """Both probes; neither asks an engine for work."""
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Answers as long as the process does."""
        return {"status": "ok"}

    @routes.get("/readyz", responses=errors(503))
    async def readyz() -> Readiness:
        """200 when a model can paint and none is loading, with how each of them stands; 503 otherwise."""
        if lifecycle.draining.is_set():
            raise closed()
        states = {model.id: model.state for model in models.all.values()}
        if "loading" in states.values() or "ready" not in states.values():
            told = ", ".join(f"{name} ({state})" for name, state in states.items())
            message = f"The server is not ready: {told}."
            raise ApiError(503, message, code="not_ready", headers={"retry-after": "2"})
        return Readiness(models=states)

    return routes
