"""The models of a server and how each of them stands: loading, ready, or failed for good.

One that failed hides no other: it is listed with its reason, and what asks for it is refused with it.
"""

from dataclasses import dataclass

from scanline.model.config import ModelConfig
from scanline.model.inputs import InvalidInput
from scanline.server.api.errors import ApiError
from scanline.server.api.schemas import EditRequest, ModelState, PaintFields
from scanline.server.engine.client.handle import EngineHandle


@dataclass(frozen=True)
class ServedModel:
    """A model that this server has, and its engine."""

    id: str
    config: ModelConfig
    bits_per_dim: float | None  # on the test set, where it has been evaluated
    created: int
    engine: EngineHandle

    @property
    def state(self) -> ModelState:
        """failed is for good; an engine that starts again is loading."""
        if self.engine.gone.is_set():
            return "failed"
        return "ready" if self.engine.is_ready else "loading"

    @property
    def failure(self) -> str | None:
        """Why it failed, for whoever may ask: the path of its directory is not among that."""
        if self.state != "failed":
            return None
        reason = self.engine.load_error or "its engine died"
        return reason.replace(str(self.engine.options.directory), self.id)


class Models:
    """The models of a server by id; the first is the default."""

    def __init__(self, models: list[ServedModel], max_images: int, request_timeout: float) -> None:
        self.all = {model.id: model for model in models}
        self.default = models[0]
        self.max_images, self.request_timeout = max_images, request_timeout

    def find(self, name: str | None) -> ServedModel:
        """The model of that id, the default for None; 404 otherwise."""
        model = self.default if name is None else self.all.get(name)
        if model is None:
            message = f"There is no model {name!r}; /v1/models lists what there is."
            raise ApiError(404, message, param="model", code="model_not_found")
        return model

    def to_work(self, name: str | None) -> ServedModel:
        """As `find`, for a request that wants work of it; 503 where the model failed, and asking again cannot help."""
        model = self.find(name)
        if model.state == "failed":
            message = f"The model {model.id} cannot be served: {model.failure}."
            raise ApiError(503, message, param="model", code="model_failed", headers={"x-should-retry": "false"})
        return model

    def count(self, fields: PaintFields, model: ServedModel) -> int:
        """Images that the request is for, checked against the limit; its size is checked too."""
        images = fields.n * (len(fields.image) if isinstance(fields, EditRequest) else 1)
        self.check_count(images, "n")
        if fields.size not in (None, "auto", model.config.size):
            message = f"size must be auto or {model.config.size}, which is what {model.id} paints, not {fields.size!r}."
            raise InvalidInput(message, "size")
        return images

    def check_count(self, images: int, param: str) -> None:
        if images > self.max_images:
            raise InvalidInput(f"{param}: {images} images are more than the {self.max_images} of one request.", param)
