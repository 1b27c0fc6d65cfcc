"""The fields of responses: images, likelihoods, classifications, models, errors."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from scanline.server.api.payload.schemas import SamplingAnswer
from scanline.server.models.registry import ModelState


class ImageData(BaseModel, serialize_by_alias=True, validate_by_name=True):
    """One image of a response."""

    b64_json: str | None = None
    url: str | None = None  # a data URL, in the place of b64_json, if response_format is url
    index: int
    # asked for, or drawn; null: no class was asked for
    class_: str | None = Field(None, alias="class")
    bits_per_dim: float | None  # null: infinite, because the model rules a known byte out
    # of a completion: what its known bytes cost, estimated; null: infinite
    evidence_bits: float | None = None
    effective_particles: float | None = None  # of a completion, the smallest number on the way


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
        return cls(
            input_tokens=known,
            input_tokens_details=details,
            output_tokens=total - known,
            total_tokens=total,
        )


class ResizedUploads(BaseModel):
    """The field of answers about uploads."""

    uploads_resized_from: list[str] = Field(
        [],
        description="each size, such as 1024x1024, that an upload or mask had before it was resized to the model's",
    )


class DecodingsAnswer(ResizedUploads):
    """The JSON response of decodings."""

    created: int
    model: str
    data: list[ImageData]
    size: str
    resized_from: str | None = None  # the model's size, if the images were resized to another
    output_format: str
    usage: Usage


class ImagesAnswer(SamplingAnswer, DecodingsAnswer):
    """The JSON response of generations and edits."""

    seed: int


class ImageCode(BaseModel, serialize_by_alias=True, validate_by_name=True):
    """One image's code; class is that under which it is coded, null
    where without one it is shorter.
    """

    index: int
    code: str = Field(description="a .scan file of this image, in base64")
    bytes: int = Field(description="of the file")
    bits: float = Field(
        description="what the image's bytes need; the file is as long to within its head and a byte"
    )
    bits_per_dim: float
    class_: str | None = Field(alias="class")


class CodesAnswer(ResizedUploads):
    """The JSON response of codes."""

    created: int
    model: str
    coding: str = Field(
        description="of the model and its arithmetic: equal ones decode each other's codes"
    )
    precision: str
    data: list[ImageCode]


class OutlierFields(BaseModel):
    """How unusual a picture is for the model; null where its test
    images' bits have not been measured.
    """

    typical: bool | None = Field(None, description="whether tail_probability is at least 0.01")
    tail_probability: float | None = Field(
        None,
        description="at most this share of the model's test images is as unusual: by its bits, or by its noise",
    )
    noisy: bool = Field(
        False,
        description="whether the picture has noise of codecs or scanners, which clean removes",
    )


class Likelihood(OutlierFields):
    """Bits of one image; per_pixel, [H][W] or [H][W][3], if requested."""

    index: int
    bits_per_dim: float | None  # null: infinite, because the model rules a byte out
    per_pixel: list[Any] | None = None


Range = Annotated[
    list[float] | None,
    Field(
        min_length=2,
        max_length=2,
        description="bits_per_dim of 99 % of the model's test images; null where they have not been measured",
    ),
]


class LikelihoodsAnswer(ResizedUploads):
    """The JSON response of likelihoods of whole images."""

    created: int
    model: str
    typical_bits_per_dim: Range
    data: list[Likelihood]


class Evidence(BaseModel):
    """What the known bytes of one image cost: an estimate of
    -log2 of their probability, in bits.
    """

    index: int
    evidence_bits: float | None  # null: infinite, because the model rules a known byte out
    standard_error: float | None  # of evidence_bits; null: of an infinite estimate
    known_bytes: int
    bits_per_known_byte: float | None


class EvidenceAnswer(ResizedUploads):
    """The JSON response of likelihoods with a mask, with all that the same estimates need again."""

    created: int
    model: str
    seed: int
    particles: int
    repeats: int
    data: list[Evidence]


class ClassificationData(OutlierFields, serialize_by_alias=True, validate_by_name=True):
    """One image, by the classes' names; all classes are equally likely beforehand. The last three
    are null where it was not read by bits."""

    index: int
    class_: str = Field(alias="class")  # the most probable one
    posterior: dict[str, float] = Field(
        description="by the class head where the model has one, else by bits"
    )
    posterior_by_bits: dict[str, float] | None = None
    bits_per_dim: dict[str, float | None] | None = None  # under each class; null: infinite
    any_class_bits_per_dim: float | None = Field(
        None, description="with the class drawn, every one equally likely"
    )


class ClassificationsAnswer(ResizedUploads):
    """The JSON response of classifications."""

    created: int
    model: str
    typical_bits_per_dim: Range
    read_by: Literal["head", "bits"] = Field(description="what class and posterior are from")
    data: list[ClassificationData]


class StepsAnswer(ResizedUploads):
    """The JSON response of steps: arrays are float32, little endian, in base64; n steps, C
    numbers of a key and M of a value."""

    created: int
    model: str
    layer: int
    head: int
    first: int
    steps: int = Field(description="n")
    step_bytes: int = Field(description="bytes of a step: 1, or those of a pixel")
    first_byte: int = Field(description="1 where byte 0 is drawn from a histogram, without a step")
    predicts: str = Field(description="the distribution, as in config.json")
    window: list[int] | None = Field(
        description="rows above and columns to either side that are read; null: none"
    )
    key_width: int = Field(description="C")
    value_width: int = Field(description="M")
    q: str = Field(description="[n, C] queries")
    k: str = Field(description="[n, C] keys")
    v: str = Field(description="[n, M] values")
    phi_q: str = Field(description="[n, C] the feature map of q, by default elu(q) + 1")
    phi_k: str = Field(description="[n, C] the feature map of k")
    s: str = Field(description="[n + 1, C, M] before the first step and after each")
    z: str = Field(description="[n + 1, C] before the first step and after each")
    y: str = Field(description="[n, M] what attention returns")
    probabilities: str = Field(
        description="[n, step_bytes, 256] of each value of a byte, at temperature 1, given the step's earlier bytes"
    )
    attention: "Attention" = Field(
        description="what the attention of one image costs at the last of the steps"
    )


class Attention(BaseModel):
    """Of all layers and heads together, one image, float32."""

    state_bytes: int = Field(description="(s, z), which are constant")
    cache_bytes: int = Field(description="keys and values that softmax attention would keep")


class Readiness(BaseModel):
    """The response of a server that can paint, with the state of each model;
    without it to those who lack a key.
    """

    status: Literal["ready"] = "ready"
    models: dict[str, ModelState] | None = None


class DefaultFields(SamplingAnswer, serialize_by_alias=True, validate_by_name=True):
    """What a model paints with where a request does not say: a class and guidance of images painted
    from nothing, particles of completions."""

    class_: str | None = Field(alias="class")
    particles: int


class ModelCard(BaseModel):
    """One model: the official fields and our own."""

    id: str
    aliases: list[str]  # other names by which requests select it
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "scanline"
    height: int
    width: int
    channels: int
    layers: int
    heads: int
    classes: list[str]  # the names that `class` and `prompt` accept, among other words; empty: none
    max_guidance: float | None  # null: the model knows no classes
    defaults: DefaultFields
    state: ModelState
    failure: str | None  # the reason, if state is failed
    bits_per_dim: float | None
    typical_bits_per_dim: Range
    precision: str
    parameters: int | None  # null, as the next six, until the model is loaded
    state_bytes_per_image: int | None
    backend: str | None
    backend_name: str | None  # as --backend names it
    fallbacks: list[str] | None  # for each faster backend, "name: why it is not used"
    digest: str | None  # of the weights and of all else that decides which bytes are painted
    # of all that decides what a code paints: equal ones decode each other's codes
    coding: str | None


class ModelList(BaseModel):
    """All models of this server."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class Error(BaseModel):
    """The error: one sentence, its type, the parameter it is about, a code for programs."""

    message: str
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    param: str | None
    code: str | None


class ErrorAnswer(BaseModel):
    """The one error shape."""

    error: Error
