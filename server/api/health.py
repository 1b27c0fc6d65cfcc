"""GET /healthz: the process lives. GET /readyz: it can paint now."""

from fastapi import APIRouter

from server.api.errors import ApiError
from server.api.jobs import Models


def router(models: Models) -> APIRouter:
    """Both probes; neither asks the engine for work."""
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Answers as long as the process does."""
        return {"status": "ok"}

    @routes.get("/readyz")
    async def readyz() -> dict[str, str]:
        """200 when every model can paint, 503 while one is loading or gone."""
        for model in models.all.values():
            if not model.engine.is_ready:
                message = f"The model {model.id} is loading or gone."
                raise ApiError(503, message, code="not_ready", headers={"retry-after": "2"})
        return {"status": "ready"}

    return routes
