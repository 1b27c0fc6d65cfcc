"""The fields of requests and responses.

Fields of the official Images API that have no effect here are accepted with their default values and refused with any
other. An unknown field is an error: a misspelt `temperature` must not be ignored silently.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from scanline.model.inputs import MAX_SEED, MAX_TEMPERATURE, InvalidInput

IGNORED_VALUES: dict[str, tuple[Any, ...]] = {  # accepted values of fields without effect, besides null
    "background": ("auto",),
    "complexity": ("auto",),
    "frame_count": (),
    "frame_duration_ms": (),
    "input_fidelity": ("auto", "low"),
    "markup": (),
    "moderation": ("auto",),
    "output_compression": (100,),
    "quality": ("auto", "standard"),
    "style": ("auto", "vivid"),
    "svg": (),
}
NULL_IS_DEFAULT = ("n", "output_format")  # as in the official API


class ModelField(BaseModel):
    """The field of every request."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    model: str | None = None


class PaintFields(ModelField):
    """The fields of both kinds of painting requests."""

    n: Annotated[int, Field(ge=1, le=2**31 - 1, description="images to paint, or completions of each image")] = 1
    prompt: Annotated[str | None, Field(description="must be empty: these models take no prompt")] = None
    size: Annotated[str | None, Field(description="auto, or the model's own size, such as 28x28")] = None
    seed: Annotated[int | None, Field(ge=0, le=MAX_SEED, description="drawn at random, and returned, if absent")] = None
    temperature: Annotated[float, Field(gt=0, le=MAX_TEMPERATURE, allow_inf_nan=False)] = 1.0
    response_format: Literal["b64_json"] | None = None
    output_format: Literal["png", "webp"] = "png"
    stream: bool | None = None
    partial_images: Annotated[int | None, Field(ge=0, le=3, description="of each image, when streamed")] = None
    user: str | None = None
    safety_identifier: str | None = None
    background: Any = None
    complexity: Any = None
    frame_count: Any = None
    frame_duration_ms: Any = None
    input_fidelity: Any = None
    markup: Any = None
    moderation: Any = None
    output_compression: Any = None
    quality: Any = None
    style: Any = None
    svg: Any = None

    @field_validator(*NULL_IS_DEFAULT, mode="before")
    @classmethod
    def _null_is_the_default(cls, value: Any, info: Any) -> Any:
        return cls.model_fields[info.field_name].default if value is None else value

    @field_validator(*IGNORED_VALUES)
    @classmethod
    def _ignored(cls, value: Any, info: Any) -> Any:
        accepted = [str(one) for one in IGNORED_VALUES[info.field_name]]  # a form has numbers as text
        if value is None or (isinstance(value, str | int) and str(value) in accepted):
            return value
        message = f"{info.field_name} is not supported; leave it out."
        raise InvalidInput(message, info.field_name, "unsupported_parameter")

    @field_validator("prompt")
    @classmethod
    def _no_prompt(cls, value: str | None) -> str | None:
        if value:
            message = "This model takes no prompt; leave it out or empty."
            raise InvalidInput(message, "prompt", "prompt_not_supported")
        return value

    @model_validator(mode="after")
    def _partial_images_need_stream(self) -> "PaintFields":
        if self.partial_images and not self.stream:
            raise InvalidInput("partial_images needs stream: true.", "partial_images")
        return self


class GenerationRequest(PaintFields):
    """POST /v1/images/generations."""


class StreamedGenerationRequest(GenerationRequest):
    """`generate` on the websocket, which may also ask for state snapshots of one layer and head."""

    state: Annotated[list[int] | None, Field(description="[layer, head], from 0; answered by `state` messages")] = None
    trace: Annotated[list[int] | None, Field(description="old name of `state`; answered by `trace` messages")] = None

    @field_validator("state", "trace", mode="before")
    @classmethod
    def _layer_and_head(cls, value: Any, info: Any) -> Any:
        fits = isinstance(value, list) and len(value) == 2 and all(type(one) is int and one >= 0 for one in value)
        if value is None or fits:
            return value
        raise InvalidInput(f"{info.field_name} must be [layer, head], two whole numbers from 0.", info.field_name)

    @model_validator(mode="after")
    def _one_name(self) -> "StreamedGenerationRequest":
        if self.state is not None and self.trace is not None:
            raise InvalidInput("state and trace exclude each other; trace is the old name of state.", "trace")
        return self


class EditRequest(PaintFields):
    """POST /v1/images/edits, images as bytes. The known pixels are given by mask, keep_rows or each image's alpha."""

    image: Annotated[list[bytes], Field(min_length=1)]
    mask: bytes | None = None
    keep_rows: Annotated[int | None, Field(ge=0)] = None

    @model_validator(mode="after")
    def _one_mask(self) -> "EditRequest":
        if self.mask is not None and self.keep_rows is not None:
            raise InvalidInput("mask and keep_rows exclude each other; send one of them.", "keep_rows")
        return self


class LikelihoodRequest(ModelField):
    """POST /v1/images/likelihoods."""

    image: Annotated[list[bytes], Field(min_length=1)]
    per_pixel: Annotated[bool, Field(description="bits of every byte; images of at most 2^22 bytes in all")] = False
    user: str | None = None


class ImageData(BaseModel):
    """One image of a response."""

    b64_json: str
    index: int
    bits_per_dim: float | None  # null: infinite, because the model rules a known byte out


class Usage(BaseModel):
    """The official schema; input tokens are known bytes, output tokens are painted bytes."""

    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, known: int, total: int) -> "Usage":
        """Return the usage of a request for `total` bytes, of which `known` were not painted."""
        details = {"text_tokens": 0, "image_tokens": known}
        return cls(input_tokens=known, input_tokens_details=details, output_tokens=total - known, total_tokens=total)


class ImagesAnswer(BaseModel):
    """The JSON response of generations and edits."""

    created: int
    model: str
    seed: int
    data: list[ImageData]
    size: str
    output_format: str
    usage: Usage


class Likelihood(BaseModel):
    """Bits of one image; per_pixel, [H][W] or [H][W][3], if requested."""

    index: int
    bits_per_dim: float | None  # null: infinite, because the model rules a byte out
    per_pixel: list[Any] | None = None


class LikelihoodsAnswer(BaseModel):
    """The JSON response of likelihoods."""

    created: int
    model: str
    data: list[Likelihood]


ModelState = Literal["loading", "ready", "failed"]


class Readiness(BaseModel):
    """The response of a server that can paint, with the state of each model; without it to those who lack a key."""

    status: Literal["ready"] = "ready"
    models: dict[str, ModelState] | None = None


class ModelCard(BaseModel):
    """One model: the official fields and our own."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "scanline"
    height: int
    width: int
    channels: int
    layers: int
    heads: int
    state: ModelState
    failure: str | None  # the reason, if state is failed
    bits_per_dim: float | None
    precision: str
    parameters: int | None  # null, as the next five, until the model is loaded
    state_bytes_per_image: int | None
    backend: str | None
    backend_name: str | None  # as --backend names it
    fallbacks: list[str] | None  # for each faster backend, "name: why it is not used"
    digest: str | None  # of the weights and of all else that decides which bytes are painted


class ModelList(BaseModel):
    """All models of this server."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class Error(BaseModel):
    """The error: one sentence, its type, the parameter it is about, a code that programs can read."""

    message: str
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None
    code: str | None


class ErrorAnswer(BaseModel):
    """The one error shape."""

    error: Error
