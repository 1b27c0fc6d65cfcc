"""GET /v1/models and /v1/models/{id}: the official fields and our own."""

from fastapi import APIRouter

from scanline.server.api.openapi import errors
from scanline.server.api.schemas import ModelCard, ModelList
from scanline.server.registry import ModelRegistry, ServedModel


def router(models: ModelRegistry) -> APIRouter:
    """Return both routes over `models`."""
    routes = APIRouter(prefix="/v1/models", tags=["models"])

    @routes.get("", responses=errors(401))
    async def all_models() -> ModelList:
        """List the models of this server in any state, the default model first."""
        return ModelList(data=[_card(model) for model in models.all.values()])

    @routes.get("/{name:path}", responses=errors(401, 404))
    async def one_model(name: str) -> ModelCard:
        """Describe one model."""
        return _card(models.find(name))

    return routes


def _card(model: ServedModel) -> ModelCard:
    ready = model.engine.ready
    return ModelCard(
        id=model.id,
        created=model.created,
        height=model.config.height,
        width=model.config.width,
        channels=model.config.channels,
        layers=model.config.layers,
        heads=model.config.heads,
        state=model.state,
        failure=model.failure,
        bits_per_dim=model.bits_per_dim,
        precision=model.engine.options.precision,
        parameters=ready.parameters if ready else None,
        state_bytes_per_image=ready.state_bytes if ready else None,
        backend=ready.backend if ready else None,
    )
