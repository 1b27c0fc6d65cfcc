"""GET /v1/models and /v1/models/{id}: the official list shape, with what is ours beside it."""

from fastapi import APIRouter

from server.api.errors import ApiError
from server.api.jobs import Models, ServedModel
from server.api.schemas import ModelCard, ModelList


def router(models: Models) -> APIRouter:
    """Both routes over `models`."""
    routes = APIRouter(prefix="/v1/models", tags=["models"])

    @routes.get("")
    async def all_models() -> ModelList:
        """Lists the models that this server paints with."""
        return ModelList(data=[_card(model) for model in models.all.values()])

    @routes.get("/{name:path}")
    async def one_model(name: str) -> ModelCard:
        """Tells about one model."""
        return _card(models.find(name))

    return routes


def _card(model: ServedModel) -> ModelCard:
    if model.engine.ready is None:
        raise ApiError(503, "The model is still loading.", code="not_ready", headers={"retry-after": "2"})
    return ModelCard(
        id=model.id,
        created=model.created,
        height=model.config.height,
        width=model.config.width,
        channels=model.config.channels,
        parameters=model.engine.ready.parameters,
        bits_per_dim=model.bits_per_dim,
        state_bytes_per_image=model.engine.ready.state_bytes,
        precision=model.engine.options.precision,
        backend=model.engine.ready.backend,
    )
