"""GET /healthz: the process is alive. GET /readyz: the server can paint."""

from fastapi import APIRouter

from scanline.server.api.errors import ApiError
from scanline.server.api.middleware.draining import shutting_down
from scanline.server.api.openapi import errors
from scanline.server.api.schemas import Readiness
from scanline.server.lifecycle import Lifecycle
from scanline.server.registry import ModelRegistry


def router(models: ModelRegistry, lifecycle: Lifecycle) -> APIRouter:
    """Return both probes; they read what the server knows already and send nothing to an engine."""
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Answer 200 while the process is alive."""
        return {"status": "ok"}

    @routes.get("/readyz", responses=errors(503))
    async def readyz() -> Readiness:
        """Answer 200 with the state of each model if one can paint and none is loading; 503 otherwise."""
        if lifecycle.draining.is_set():
            raise shutting_down()
        states = {model.id: model.state for model in models.all.values()}
        if "loading" in states.values() or "ready" not in states.values():
            listed = ", ".join(f"{name} ({state})" for name, state in states.items())
            message = f"The server is not ready: {listed}."
            raise ApiError(503, message, code="not_ready", headers={"retry-after": "2"})
        return Readiness(models=states)

    return routes
