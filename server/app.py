"""The one file that builds the FastAPI application: engines, routes, the error shape."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from model import zoo
from model.checkpoint import load_config, tested_bits_per_dim
from server.api import errors, health, images, metrics, models, onnx, origins, stream
from server.api.body_limit import BodyLimit
from server.api.http_tally import CountHttp, HttpTally
from server.api.jobs import Models, ServedModel
from server.api.keys import Keys
from server.engine.client import EngineClient
from server.engine.process import EngineOptions
from server.metrics import registry
from server.settings import Settings

ABOUT = "Linear-transformer image models, painted byte by byte: thousands at once, constant memory each."


def served_model(settings: Settings) -> ServedModel:
    """The model that the settings name and an engine for it, not yet started; ValueError where it is wrong."""
    directory = zoo.find(settings.model).resolve()
    config = load_config(directory)
    options = EngineOptions(
        directory,
        settings.device,
        None if settings.slots == "auto" else settings.slots,
        None if settings.threads == "auto" else settings.threads,
        settings.precision,
    )
    return ServedModel(
        id=directory.name,
        config=config,
        bits_per_dim=tested_bits_per_dim(directory),
        created=int((directory / "config.json").stat().st_mtime),
        engine=EngineClient(options, settings.max_waiting_images, config.bytes),
    )


def build(settings: Settings, model: ServedModel) -> FastAPI:
    """The application; its engine lives from its start-up to its shutdown."""
    served = Models([model], settings.max_images_per_request)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        model.engine.start()
        yield
        await model.engine.close()

    app = FastAPI(title="Scanline", version=version("scanline"), lifespan=lifespan, description=ABOUT)
    app.add_middleware(BodyLimit, most=settings.max_body_bytes)  # the innermost: each one added lies around the others
    if settings.api_keys:
        app.add_middleware(Keys, keys=settings.api_keys)
    origins.install(app, settings.allow_origins)  # around the keys: a preflight has none
    http = HttpTally()
    app.add_middleware(CountHttp, tally=http)  # the outermost, whatever comes beside it
    errors.install(app)
    for part in (images, onnx, models, stream):  # onnx before models, whose last path takes all
        app.include_router(part.router(served))
    app.include_router(health.router(served))
    app.include_router(metrics.router(registry(served, http)))
    return app
