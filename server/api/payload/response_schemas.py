"""The fields of responses: images, likelihoods, classifications, models, errors."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from scanline.server.api.payload.schemas import SamplingAnswer
from scanline.server.models.registry import ModelState


class Answer(BaseModel, use_attribute_docstrings=True):
    """What the fields of every answer have in common: the text below a field is its description in /openapi.json."""


class ImageData(Answer, serialize_by_alias=True, validate_by_name=True):
    """One image of a response."""

    b64_json: str | None = None
    """the file in base64"""
    url: str | None = None
    """a data URL in its place, with response_format url"""
    index: int
    """from 0"""
    class_: str | None = Field(None, alias="class")
    """asked for, or drawn; null: none"""
    bits_per_dim: float | None
    """of this image; null: infinite, as the model rules a known byte out"""
    evidence_bits: float | None = None
    """of completions: an estimate of -log2 of the probability of the known bytes; null: infinite"""
    effective_particles: float | None = None
    """of completions: the smallest effective number on the way; near 1, more particles help"""


class Usage(Answer):
    """Bytes of the images, in the official schema."""

    input_tokens: int
    """known bytes"""
    input_tokens_details: dict[str, int]
    """the same, by kind"""
    output_tokens: int
    """painted bytes"""
    total_tokens: int
    """of both"""

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


class ResizedUploads(Answer):
    """The field of answers about uploads."""

    uploads_resized_from: list[str] = []
    """each size, such as 1024x1024, that an upload or mask had before it was resized to the model's"""


class DecodingsAnswer(ResizedUploads):
    """The JSON response of decodings."""

    created: int
    """Unix time in seconds"""
    model: str
    """whose images these are"""
    data: list[ImageData]
    size: str
    """of the images"""
    resized_from: str | None = None
    """the model's size, if the images were resized from it"""
    output_format: str
    """as in the request"""
    usage: Usage


class ImagesAnswer(SamplingAnswer, DecodingsAnswer):
    """The JSON response of generations and edits."""

    seed: int
    """of the request, or drawn"""


class ImageCode(Answer, serialize_by_alias=True, validate_by_name=True):
    """One image's code."""

    index: int
    """from 0"""
    code: str
    """a .scan file of this image, in base64"""
    bytes: int
    """of the file"""
    bits: float
    """what the image's bytes need; the file is as long to within its head and a byte"""
    bits_per_dim: float
    """bits for each byte of the image"""
    class_: str | None = Field(alias="class")
    """under which the picture is coded; null: none"""


class CodesAnswer(ResizedUploads):
    """The JSON response of codes."""

    created: int
    """Unix time in seconds"""
    model: str
    """that reads and paints the codes"""
    coding: str
    """of the model and its arithmetic: equal ones decode each other's codes"""
    precision: str
    """of the model"""
    data: list[ImageCode]


class OutlierFields(Answer):
    """How unusual a picture is for the model; null where its test
    images' bits have not been measured.
    """

    typical: bool | None = None
    """whether tail_probability is at least 0.01"""
    tail_probability: float | None = None
    """at most this share of the model's test images is as unusual: by its bits, or by its noise"""
    noisy: bool = False
    """whether the picture has noise of codecs or scanners, which clean removes"""


class Likelihood(OutlierFields):
    """Bits of one image."""

    index: int
    """from 0"""
    bits_per_dim: float | None
    """of this picture; null: infinite, as the model rules a byte out"""
    per_pixel: list[Any] | None = None
    """bits of each byte, [H][W] or [H][W][3], if asked for"""


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
    """Unix time in seconds"""
    model: str
    """that read the pictures"""
    typical_bits_per_dim: Range
    data: list[Likelihood]


class Evidence(Answer):
    """What the known bytes of one image cost: an estimate of
    -log2 of their probability, in bits.
    """

    index: int
    """from 0"""
    evidence_bits: float | None
    """estimate of -log2 of the probability of the known bytes; null: infinite"""
    standard_error: float | None
    """of evidence_bits, by the jackknife; 0 where the estimate is exact, null where it is infinite"""
    known_bytes: int
    """of this picture"""
    bits_per_known_byte: float | None
    """evidence_bits for each of them"""


class EvidenceAnswer(ResizedUploads):
    """The JSON response of likelihoods with a mask, with all that the same estimates need again."""

    created: int
    """Unix time in seconds"""
    model: str
    """that read the pictures"""
    seed: int
    """the same seed, particles and repeats give the same numbers"""
    particles: int
    """of each estimate"""
    repeats: int
    """estimates of each picture"""
    data: list[Evidence]


class ClassificationData(OutlierFields, serialize_by_alias=True, validate_by_name=True):
    """One image, by the classes' names; all classes are equally likely beforehand. The last three
    are null where it was not read by bits."""

    index: int
    """from 0"""
    class_: str | None = Field(alias="class")
    """the most probable one; null: the picture shows none, as it is not typical"""
    posterior: dict[str, float]
    """by the class head where the model has one, else by bits"""
    posterior_by_bits: dict[str, float] | None = None
    """the same by bits"""
    bits_per_dim: dict[str, float | None] | None = None
    """under each class; null: infinite"""
    any_class_bits_per_dim: float | None = None
    """with the class drawn, every one equally likely"""


class ClassificationsAnswer(ResizedUploads):
    """The JSON response of classifications."""

    created: int
    """Unix time in seconds"""
    model: str
    """that read the pictures"""
    typical_bits_per_dim: Range
    read_by: Literal["head", "bits"]
    """what class and posterior are from"""
    data: list[ClassificationData]


class StepsAnswer(ResizedUploads):
    """The JSON response of steps: arrays are float32, little endian, in base64; n steps, C
    numbers of a key and M of a value."""

    created: int
    """Unix time in seconds"""
    model: str
    """whose numbers these are"""
    layer: int
    """as asked"""
    head: int
    """as asked"""
    first: int
    """as asked"""
    steps: int
    """n"""
    step_bytes: int
    """bytes of a step: 1, or those of a pixel"""
    first_byte: int
    """1 where byte 0 is drawn from a histogram, without a step"""
    predicts: str
    """the distribution, as in config.json"""
    window: list[int] | None
    """rows above and columns to either side that are read; null: none"""
    key_width: int
    """C"""
    value_width: int
    """M"""
    q: str
    """[n, C] queries"""
    k: str
    """[n, C] keys"""
    v: str
    """[n, M] values"""
    phi_q: str
    """[n, C] the feature map of q, by default elu(q) + 1"""
    phi_k: str
    """[n, C] the feature map of k"""
    s: str
    """[n + 1, C, M] before the first step and after each"""
    z: str
    """[n + 1, C] before the first step and after each"""
    y: str
    """[n, M] what attention returns"""
    probabilities: str
    """[n, step_bytes, 256] of each value of a byte, at temperature 1, given the step's earlier bytes"""
    attention: "Attention"
    """what the attention of one image costs at the last of the steps"""


class Attention(Answer):
    """Of all layers and heads together, one image, float32."""

    state_bytes: int
    """(s, z), which are constant"""
    cache_bytes: int
    """keys and values that softmax attention would keep"""


class Readiness(Answer):
    """The response of a server that can paint, with the state of each model;
    without it to those who lack a key.
    """

    status: Literal["ready"] = "ready"
    models: dict[str, ModelState] | None = None
    """the state of each; on a server with keys only for clients with one"""


class DefaultFields(SamplingAnswer, serialize_by_alias=True, validate_by_name=True):
    """What a model paints with where a request does not say: a class, guidance and candidates of
    images painted from nothing, particles of completions."""

    class_: str | None = Field(alias="class")
    particles: int
    """of completions"""
    best_of: int
    """candidates of images of a class"""


class ModelCard(Answer):
    """One model: the official fields and our own."""

    id: str
    """the name that answers call it"""
    aliases: list[str]
    """other names that requests may use"""
    object: Literal["model"] = "model"
    created: int
    """when its weights were written, in Unix time"""
    owned_by: str = "scanline"
    height: int
    """of its images"""
    width: int
    """of its images"""
    channels: int
    """1: grey, 3: colour"""
    layers: int
    """of the network"""
    heads: int
    """of each layer"""
    classes: list[str]
    """their names; empty: none"""
    max_guidance: float | None
    """null without classes"""
    has_class_head: bool
    """whether it can choose among candidates (best_of) and classify by one reading"""
    defaults: DefaultFields
    """what a request leaves out"""
    state: ModelState
    """of its engine"""
    failure: str | None
    """why, if state is failed"""
    bits_per_dim: float | None
    """of test images"""
    typical_bits_per_dim: Range
    precision: str
    """as --precision names it"""
    parameters: int | None
    """null, as what follows, until the model is loaded"""
    state_bytes_per_image: int | None
    """memory of an image in flight"""
    backend: str | None
    """in words"""
    backend_name: str | None
    """as --backend names it"""
    fallbacks: list[str] | None
    """why each faster backend is not used"""
    digest: str | None
    """models with an equal one paint equal bytes"""
    scanline: str
    """version of this program, as recipes name it"""
    coding: str | None
    """models with an equal one decode each other's codes"""


class ModelList(Answer):
    """All models of this server."""

    object: Literal["list"] = "list"
    data: list[ModelCard]
    """the default first"""


class Error(Answer):
    """The error: one sentence, its type, the parameter it is about, a code for programs."""

    message: str
    """one sentence for people"""
    type: Literal["invalid_request_error", "rate_limit_error", "server_error"]
    """by the status: 429, 500 and above, or any other"""
    param: str | None
    """the field that it is about"""
    code: str | None
    """for programs"""


class ErrorAnswer(Answer):
    """The one error shape."""

    error: Error
