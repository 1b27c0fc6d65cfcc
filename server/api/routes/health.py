"""GET /healthz: the process is alive, and the main process too.
GET /readyz: the server can paint.
"""

import asyncio
from collections.abc import Callable

from fastapi import APIRouter, Request

from scanline.server.api.base.client import client_of
from scanline.server.api.base.errors import RETRY_SOON, ApiError
from scanline.server.api.middleware.draining import shutting_down
from scanline.server.api.openapi import errors
from scanline.server.api.payload.response_schemas import Readiness
from scanline.server.engine.local.engine_process import SILENT_SECONDS
from scanline.server.models.registry import ModelRegistry
from scanline.server.runtime.lifecycle import Lifecycle

# in which a process that stood still itself reads what it has been sent meanwhile
STALL_SECONDS = 0.5


def router(
    models: ModelRegistry,
    lifecycle: Lifecycle,
    needs_key: bool,
    main_silence: Callable[[], float] | None = None,
) -> APIRouter:
    """Return both probes; they read what the server knows already and send nothing to an engine.

    Where a key is needed, they name the models only to clients that have one. `main_silence`:
    seconds since the main process has sent something, where that is another one.
    """
    routes = APIRouter(tags=["health"])

    @routes.get("/healthz", responses=errors(503), summary="Liveness probe")
    async def healthz() -> dict[str, str]:
        """Answer 200 while the process is alive, and the main process where
        that is another one; 503 otherwise.
        """
        if main_silence is not None and main_silence() > SILENT_SECONDS:
            await asyncio.sleep(STALL_SECONDS)
        if main_silence is not None and (seconds := main_silence()) > SILENT_SECONDS:
            message = f"The server's main process has sent nothing for {seconds:.0f} seconds."
            raise ApiError("main_process_silent", message, headers=RETRY_SOON)
        return {"status": "ok"}

    @routes.get(
        "/readyz",
        responses=errors(503),
        response_model_exclude_none=True,
        summary="Readiness probe",
    )
    async def readyz(request: Request) -> Readiness:
        """Answer 200 with the state of each model if one can paint
        and none is loading; 503 otherwise.

        Where a key is needed, models are named only to clients that send one.
        """
        if lifecycle.draining.is_set():
            raise shutting_down()
        states = {model.id: model.state for model in models.all.values()}
        names_models = not needs_key or client_of(request.scope).key is not None
        if "loading" in states.values() or "ready" not in states.values():
            listed = ", ".join(f"{name} ({state})" for name, state in states.items())
            message = (
                f"The server is not ready: {listed}."
                if names_models
                else "The server is not ready."
            )
            raise ApiError("not_ready", message, headers=RETRY_SOON)
        return Readiness(models=states if names_models else None)

    return routes
