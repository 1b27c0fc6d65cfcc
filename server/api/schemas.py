"""What the API is asked for and what it answers, field by field.

Fields of the official Images API that mean nothing here are taken when harmless and refused with a sentence
otherwise; an unknown field is an error, because a misspelt `temperature` must not pass in silence.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from scanline.model.inputs import InvalidInput

HARMLESS: dict[str, tuple[Any, ...]] = {  # beside null: values that ask for nothing
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
NULL_IS_DEFAULT = ("n", "output_format")  # as the official API has it


class ModelField(BaseModel):
    """What every request has."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    model: str | None = None


class PaintFields(ModelField):
    """What paintings of both kinds have."""

    n: Annotated[int, Field(ge=1, le=2**31 - 1, description="images to paint, or completions of each image")] = 1
    prompt: Annotated[str | None, Field(description="must be empty: these models paint without one")] = None
    size: Annotated[str | None, Field(description="auto, or the model's own, as 28x28")] = None
    seed: Annotated[int | None, Field(ge=0, lt=2**63, description="drawn and told when absent")] = None
    temperature: Annotated[float, Field(gt=0, le=2, allow_inf_nan=False)] = 1.0
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

    @field_validator(*HARMLESS)
    @classmethod
    def _harmless(cls, value: Any, info: Any) -> Any:
        if value is None or str(value) in [str(harmless) for harmless in HARMLESS[info.field_name]]:
            return value
        message = f"{info.field_name} means nothing to this server; leave it out."
        raise InvalidInput(message, info.field_name, "unsupported_parameter")

    @field_validator("prompt")
    @classmethod
    def _no_prompt(cls, value: str | None) -> str | None:
        if value:
            message = "This model paints without a prompt; leave it out or empty."
            raise InvalidInput(message, "prompt", "prompt_not_supported")
        return value

    @model_validator(mode="after")
    def _only_streams_are_partial(self) -> "PaintFields":
        if self.partial_images and not self.stream:
            raise InvalidInput("partial_images needs stream: true.", "partial_images")
        return self


class GenerationRequest(PaintFields):
    """POST /v1/images/generations."""


class StreamedGenerationRequest(GenerationRequest):
    """The same over the websocket, where the state of one layer and head may be watched."""

    trace: Annotated[list[int] | None, Field(description="[layer, head], from 0")] = None

    @field_validator("trace", mode="before")
    @classmethod
    def _layer_and_head(cls, value: Any) -> Any:
        fits = isinstance(value, list) and len(value) == 2 and all(type(one) is int and one >= 0 for one in value)
        if value is None or fits:
            return value
        raise InvalidInput("trace must be [layer, head], two whole numbers from 0.", "trace")


class EditRequest(PaintFields):
    """POST /v1/images/edits: images as bytes, however they came; exactly one of mask, keep_rows, own alpha decides."""

    image: Annotated[list[bytes], Field(min_length=1)]
    mask: bytes | None = None
    keep_rows: Annotated[int | None, Field(ge=0)] = None

    @model_validator(mode="after")
    def _one_decides(self) -> "EditRequest":
        if self.mask is not None and self.keep_rows is not None:
            raise InvalidInput("mask and keep_rows exclude each other; send one of them.", "keep_rows")
        return self


class LikelihoodRequest(ModelField):
    """POST /v1/images/likelihoods."""

    image: Annotated[list[bytes], Field(min_length=1)]
    per_pixel: bool = False
    user: str | None = None


class ImageData(BaseModel):
    """One painted image."""

    b64_json: str
    index: int
    bits_per_dim: float | None  # null where known bytes are such that the model rules out


class Usage(BaseModel):
    """As the official schema has it; output tokens are bytes painted, input tokens bytes that were known."""

    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    total_tokens: int

    @classmethod
    def of(cls, known: int, total: int) -> "Usage":
        """Of `total` bytes, `known` of them not painted."""
        details = {"text_tokens": 0, "image_tokens": known}
        return cls(input_tokens=known, input_tokens_details=details, output_tokens=total - known, total_tokens=total)


class ImagesAnswer(BaseModel):
    """What both paintings answer."""

    created: int
    model: str
    seed: int
    data: list[ImageData]
    size: str
    output_format: str
    usage: Usage


class Likelihood(BaseModel):
    """Bits of one image; per_pixel [H][W] or [H][W][3] when asked for."""

    index: int
    bits_per_dim: float | None  # null where the model rules out a byte
    per_pixel: list[Any] | None = None


class LikelihoodsAnswer(BaseModel):
    """What likelihoods answer."""

    created: int
    model: str
    data: list[Likelihood]


ModelState = Literal["loading", "ready", "failed"]


class Readiness(BaseModel):
    """A server that can paint, and how each of its models stands."""

    status: Literal["ready"] = "ready"
    models: dict[str, ModelState]


class ModelCard(BaseModel):
    """One model, in the official shape, with what is ours beside it."""

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
    failure: str | None  # why it failed
    bits_per_dim: float | None
    precision: str
    parameters: int | None  # this and the rest: once it is loaded
    state_bytes_per_image: int | None
    backend: str | None  # what runs its steps


class ModelList(BaseModel):
    """All models of this server."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class Error(BaseModel):
    """What is wrong: one sentence, its kind, the parameter it is about, a code that programs can read."""

    message: str
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None
    code: str | None


class ErrorAnswer(BaseModel):
    """The one error shape."""

    error: Error
