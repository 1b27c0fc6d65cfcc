"""From checked fields to a job: which model, which seed, which bytes are known. HTTP and websocket share it."""

import secrets
from dataclasses import dataclass

from model.config import ModelConfig
from server.api.errors import ApiError
from server.api.schemas import EditRequest, PaintFields
from server.engine.client import EngineClient
from server.pictures import known_by_alpha, known_by_picture, known_rows, open_picture, pixels
from server.refusal import Refusal

SEED_BITS = 53  # of a seed that we draw: JavaScript reads it back without loss


@dataclass(frozen=True)
class ServedModel:
    """A model that this server has, and its engine."""

    id: str
    config: ModelConfig
    bits_per_dim: float | None  # on the test set, where it has been evaluated
    created: int
    engine: EngineClient


@dataclass(frozen=True)
class Work:
    """What the engine is asked to paint."""

    images: int
    seed: int
    temperature: float
    known: tuple[bytes, ...] = ()
    masks: tuple[bytes, ...] = ()

    @property
    def known_bytes(self) -> int:
        """Bytes that need no painting, all images together."""
        copies = self.images // len(self.masks) if self.masks else 0
        return copies * sum(mask.count(1) for mask in self.masks)

    def known_bytes_of(self, index: int) -> int:
        """Bytes of one image that need no painting."""
        return self.masks[index * len(self.masks) // self.images].count(1) if self.masks else 0


class Models:
    """The models of a server by id; the first is the default."""

    def __init__(self, models: list[ServedModel], max_images: int) -> None:
        self.all = {model.id: model for model in models}
        self.default = models[0]
        self.max_images = max_images

    def find(self, name: str | None) -> ServedModel:
        """The model of that id, the default for None; 404 otherwise."""
        model = self.default if name is None else self.all.get(name)
        if model is None:
            message = f"There is no model {name!r}; /v1/models lists what there is."
            raise ApiError(404, message, param="model", code="model_not_found")
        return model

    def count(self, fields: PaintFields, model: ServedModel) -> int:
        """Images that the request is for, checked against the limit; its size is checked too."""
        images = fields.n * (len(fields.image) if isinstance(fields, EditRequest) else 1)
        self.check_count(images, "n")
        if fields.size not in (None, "auto", model.config.size):
            message = f"size must be auto or {model.config.size}, which is what {model.id} paints, not {fields.size!r}."
            raise Refusal(message, "size")
        return images

    def check_count(self, images: int, param: str) -> None:
        if images > self.max_images:
            raise Refusal(f"{param}: {images} images are more than the {self.max_images} of one request.", param)


def work_of(fields: PaintFields, images: int, config: ModelConfig) -> Work:
    """What to paint; decodes the pictures of an edit, ApiError where one is wrong."""
    seed = secrets.randbits(SEED_BITS) if fields.seed is None else fields.seed
    if not isinstance(fields, EditRequest):
        return Work(images, seed, fields.temperature)
    known, masks = [], []
    mask = None
    if fields.mask is not None:
        mask = known_by_picture(open_picture(fields.mask, config, "mask"), config, "mask")
    elif fields.keep_rows is not None:
        mask = known_rows(fields.keep_rows, config)
    for data in fields.image:
        picture = open_picture(data, config, "image")
        known.append(pixels(picture, config).tobytes())
        masks.append((known_by_alpha(picture, config) if mask is None else mask).tobytes())
    return Work(images, seed, fields.temperature, tuple(known), tuple(masks))
