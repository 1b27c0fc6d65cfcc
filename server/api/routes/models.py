"""GET /v1/models and /v1/models/{id}: the official fields and our
own. POST /v1/models/{id}/reload.
"""

from fastapi import APIRouter, HTTPException

from scanline.model.base.extras import version
from scanline.model.base.sampling_options import limits_of
from scanline.server.api.base.errors import ApiError
from scanline.server.api.openapi import errors
from scanline.server.api.payload.response_schemas import DefaultFields, ModelCard, ModelList
from scanline.server.models.registry import ModelRegistry, ServedModel
from scanline.server.models.reload import Reloader


def router(models: ModelRegistry, reloader: Reloader, has_keys: bool) -> APIRouter:
    """Return the routes over `models`; only clients with a key may reload one."""
    routes = APIRouter(prefix="/v1/models", tags=["models"])

    @routes.get("", responses=errors(401))
    async def list_models() -> ModelList:
        """List the models of this server in any state, the default model first."""
        return ModelList(data=[_card(model) for model in models.all.values()])

    # Before the next route, whose path parameter would match /reload as well.
    @routes.post("/{name:path}/reload", responses=errors(401, 403, 404, 409))
    async def reload_model(name: str) -> ModelCard:
        """Load what is in the model's directory now, for new requests; those in
        progress finish with the old model.
        """
        if not has_keys:
            message = "Only a server with API keys reloads over HTTP; send this one SIGHUP instead."
            raise ApiError("reload_not_allowed", message)
        return _card(await reloader.reload(name))

    @routes.get("/{name:path}", responses=errors(401, 404))
    async def get_model(name: str) -> ModelCard:
        """Describe one model."""
        if not name or name.endswith("/"):  # a route's path, and a slash
            raise HTTPException(404)
        return _card(models.find(name))

    return routes


def _card(model: ServedModel) -> ModelCard:
    ready = model.engine.ready
    config = model.config
    return ModelCard(
        id=model.id,
        aliases=list(model.names[1:]),
        created=model.created,
        **{
            name: getattr(config, name)
            for name in ("height", "width", "channels", "layers", "heads")
        },
        classes=list(config.class_names),
        **limits_of(config),
        has_class_head=model.as_loaded.has_class_head,
        defaults=DefaultFields.model_validate(model.defaults.to_dict()),
        state=model.state,
        failure=model.failure,
        bits_per_dim=model.bits_per_dim,
        typical_bits_per_dim=model.typical_bits_per_dim,
        precision=model.engine.options.precision,
        scanline=version(),
        state_bytes_per_image=ready.state_bytes if ready else None,
        fallbacks=list(ready.fallbacks) if ready else None,
        **{
            name: getattr(ready, name, None)
            for name in ("parameters", "backend", "backend_name", "digest", "coding")
        },
    )
