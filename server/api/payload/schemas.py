"""The fields of requests.

Fields of the official Images API that have no effect here are accepted with the values that ask for
what is done anyway, and refused with any other. An unknown field is an error: a misspelt
`temperature` must not be ignored silently.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    field_validator,
    model_validator,
)

from scanline.model.base import sampling_options as limits
from scanline.model.base.class_names import MAX_LISTED
from scanline.model.base.inputs import MAX_SEED, InvalidInput, ranges
from scanline.model.formats.code_file import MAX_A_CODE
from scanline.model.images import film as films
from scanline.model.images import pictures
from scanline.model.images.cleaning import Clean
from scanline.model.images.film import DEFAULT_FRAMES, MAX_FRAMES, MIN_FRAMES, Film
from scanline.model.likelihood.marginal_likelihood import MAX_REPEATS, MIN_REPEATS
from scanline.server.api.base.errors import quoted

# accepted values of fields without effect, besides null
IGNORED_VALUES: dict[str, tuple[Any, ...]] = {
    "background": ("auto", "opaque"),
    "complexity": ("auto",),
    "frame_count": (),
    "frame_duration_ms": (),
    "input_fidelity": ("auto", "low", "high"),
    "markup": (),
    "moderation": ("auto", "low"),
    "output_compression": (100,),
    "quality": ("auto", "standard", "low", "medium", "high", "hd", "xhigh", "max"),
    "style": ("auto", "vivid", "natural"),
    "svg": (),
}
NULL_IS_DEFAULT = ("output_format",)  # as in the official API
MAX_PROMPT_CHARACTERS = 32_000  # as in the official API
MAX_CLASS_CHARACTERS = 256
DEFAULT_REPEATS = 4
MAX_INSPECTED_STEPS = 64  # of a request: an answer of about half a megabyte
NO_EFFECT = "accepted for compatibility with the official API; has no effect"
CLEAN = (
    "auto: models of drawings read pictures without the noise of codecs and scanners, whole ones without their paper,"
    " light on dark or dark on light, and centred as the models' are; off: pictures are read as they are"
)


def _whole_number(least: int, most: int) -> WrapValidator:
    """Answer every error of a number with one sentence that says what it may be."""

    def check(value: Any, handler: Callable[[Any], int], info: ValidationInfo) -> int:
        try:
            return handler(value)
        except ValidationError:
            sent = "null" if value is None else quoted(value)
            reason = f"{info.field_name} must be a whole number from {least} to {most}, not {sent}."
            raise InvalidInput(reason, info.field_name) from None

    return WrapValidator(check)


def _names() -> WrapValidator:
    """Answer every error of a class or a list of classes with one sentence."""

    def check(value: Any, handler: Callable[[Any], Any], info: ValidationInfo) -> Any:
        try:
            return handler(value)
        except ValidationError:
            name = f"a name of at most {MAX_CLASS_CHARACTERS} characters"
            reason = f"class must be {name}, or a list of at most {MAX_LISTED:,} such names."
            raise InvalidInput(reason, "class") from None

    return WrapValidator(check)


User = Annotated[str | None, Field(description=NO_EFFECT)]
Seed = Annotated[
    int | None,
    Field(
        ge=-1,
        le=MAX_SEED,
        description="the same seed gives the same image; drawn at random, and returned, if absent or -1",
    ),
]
_AsText = BeforeValidator(lambda value: str(value) if type(value) is int else value)  # 7, the digit
Class = Annotated[
    str | None,
    Field(
        alias="class",
        max_length=MAX_CLASS_CHARACTERS,
        description="a class of the model, by any name",
    ),
    _AsText,
]
CodedClass = Annotated[
    str | None,
    Field(
        alias="class",
        max_length=MAX_CLASS_CHARACTERS,
        description="a class of the model, by any name: an image is coded under it where that is shorter",
    ),
    _AsText,
]
PaintedClass = Annotated[
    str
    | Annotated[
        list[Annotated[str, Field(max_length=MAX_CLASS_CHARACTERS), _AsText]],
        Field(max_length=MAX_LISTED),
    ]
    | None,
    Field(
        alias="class",
        description='a class of the model, by any name; "none": no class; of generations also "any": one for each'
        " image, drawn, or a list: one image of each; if absent the model's default, of edits none",
    ),
    _AsText,
    _names(),
]
Particles = Annotated[
    int | None,
    Field(
        ge=1,
        le=limits.MAX_PARTICLES,
        description="copies of each completion, of which those that fit the known pixels are kept; the model's default"
        " if absent, or 1 where no known pixel follows a hidden one, or with guidance",
    ),
    _whole_number(1, limits.MAX_PARTICLES),
]
BestOf = Annotated[
    int | None,
    Field(
        ge=1,
        le=limits.MAX_BEST_OF,
        description="candidates of each image of a class, of which the model's class head chooses one; it counts as so"
        " many; if absent the model's default, or 1 without a class",
    ),
    _whole_number(1, limits.MAX_BEST_OF),
]
Frames = Annotated[
    int | None,
    Field(
        ge=MIN_FRAMES,
        le=MAX_FRAMES,
        description=f"pictures of a film of the painting; {DEFAULT_FRAMES} if absent",
    ),
    _whole_number(MIN_FRAMES, MAX_FRAMES),
]
Seconds = Annotated[
    float | None,
    Field(
        allow_inf_nan=False,
        # `Film` checks them
        json_schema_extra={"minimum": films.MIN_SECONDS, "maximum": films.MAX_SECONDS},
        description=f"of a film until its last frame, which stays for {films.LAST_MS // 1000} more; each frame takes at"
        f" least 0.02; {films.DEFAULT_SECONDS:g} if absent",
    ),
]
Scale = Annotated[
    int | None,
    Field(
        ge=1,
        le=films.MAX_SCALE,
        description=f"pixels of a film to one of the images; if absent up to {films.DEFAULT_SCALE}, while the film has"
        f" at most {films.DEFAULT_SIDE} pixels a side",
    ),
    _whole_number(1, films.MAX_SCALE),
]
Repeats = Annotated[
    int,
    Field(
        ge=MIN_REPEATS,
        le=MAX_REPEATS,
        description="estimates of each image, of whose probabilities the mean is taken; needs a mask or keep_rows",
    ),
    _whole_number(MIN_REPEATS, MAX_REPEATS),
]


class SamplingFields(BaseModel, use_attribute_docstrings=True):
    """The fields of requests to paint that say how."""

    temperature: Annotated[
        float | None,
        Field(
            allow_inf_nan=False,
            json_schema_extra={
                "minimum": limits.MIN_TEMPERATURE,
                "maximum": limits.MAX_TEMPERATURE,
            },
        ),
    ] = None
    """1 samples from the model; below it, images are more probable and less diverse; the model's
    default if absent. It divides the logits of a byte's values; of a model that predicts logistics
    at guidance 1, the logits of the components, whose scales it multiplies"""
    # `check_guidance` checks them
    guidance: Annotated[
        float | None,
        Field(
            allow_inf_nan=False, json_schema_extra={"minimum": 1, "maximum": limits.MAX_GUIDANCE}
        ),
    ] = None
    """1: none; above, images are more typical of their class and less diverse, and take two
    slots each; if absent the model's default for images of a class that are painted from
    nothing, else 1"""


class SamplingAnswer(BaseModel, use_attribute_docstrings=True):
    """The fields of their answers: the request's, or the model's defaults."""

    temperature: float
    """with which images are painted"""
    guidance: float
    """of images of a class"""


class ModelField(
    BaseModel, extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True
):
    """The field of every request."""

    model: str | None = None
    """a name of a served model; the first if absent, of decodings the one of the codes"""


class SizeFields(ModelField):
    """What to do with sizes other than the model's."""

    size_policy: Literal["exact", "resize"] | None = None
    """exact: sizes other than the model's are refused; resize: uploads are resized to the
    model's size, and images to `size` by repeating pixels; as the server was started if absent"""


class OutputFields(SizeFields):
    """The fields of every request that is answered with images."""

    size: str | None = None
    """of the images: auto or the model's own, such as 28x28; any with size_policy resize"""
    response_format: Literal["b64_json", "url"] | None = None
    """of JSON answers; url: a data URL, the default for models named dall-e-2 or dall-e-3"""
    output_format: Literal["png", "webp", "gif", "apng"] = "png"
    """of the images in JSON answers and events: lossless png or webp; gif, apng, and webp with
    frames, seconds or scale: a film of the painting of each image"""
    frames: Frames = None
    seconds: Seconds = None
    scale: Scale = None
    stream: bool | None = None
    """answer with server-sent events"""
    partial_images: Annotated[int | None, Field(ge=0, le=3)] = None
    """events for each image before the finished one; needs stream"""
    user: User = None

    @field_validator(*NULL_IS_DEFAULT, mode="before", check_fields=False)
    @classmethod
    def _null_is_the_default(cls, value: Any, info: Any) -> Any:
        return cls.model_fields[info.field_name].default if value is None else value

    @model_validator(mode="after")
    def _partial_images_need_stream(self) -> "OutputFields":
        if self.partial_images and not self.stream:
            raise InvalidInput("partial_images needs stream: true.", "partial_images")
        return self

    @property
    def _numbers_of_film(self) -> dict[str, Any]:
        """Those that are sent."""
        numbers = {"frames": self.frames, "seconds": self.seconds, "scale": self.scale}
        return {name: number for name, number in numbers.items() if number is not None}

    @cached_property
    def film(self) -> Film | None:
        """The film that is asked for by one of its numbers; InvalidInput where these do not fit."""
        numbers = self._numbers_of_film
        return Film(**numbers) if numbers else None

    def refuse_film(self, instead: str) -> None:
        """Raise InvalidInput where a film is asked for; `instead` says what to do."""
        names = [*self._numbers_of_film]
        if self.output_format not in pictures.MEDIA_TYPES:
            names.append("output_format")
        for name in names:
            sent = f"{name} {self.output_format}" if name == "output_format" else name
            raise InvalidInput(f"{sent} is for films; {instead}.", name)


class PaintFields(SamplingFields, OutputFields):
    """The fields of both kinds of painting requests."""

    n: Annotated[int | None, Field(ge=1, le=2**31 - 1)] = None
    """images, or completions of each picture: as many as --max-images-per-request allows; if
    absent 1, or one of each class of a list"""
    prompt: Annotated[str | None, Field(max_length=MAX_PROMPT_CHARACTERS)] = None
    """empty, a text that names one class of the model, or characters that are each a class"""
    class_name: PaintedClass = None
    seed: Seed = None
    safety_identifier: User = None
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

    @field_validator(*IGNORED_VALUES)
    @classmethod
    def _ignored(cls, value: Any, info: Any) -> Any:
        # a form has numbers as text
        accepted = [str(ignored) for ignored in IGNORED_VALUES[info.field_name]]
        if value is None or (isinstance(value, str | int) and str(value) in accepted):
            return value
        instead = f" or send {' or '.join(accepted)}" if accepted else ""
        message = f"{info.field_name} {quoted(value)} is not supported; leave it out{instead}."
        raise InvalidInput(message, info.field_name, "unsupported_parameter")


class GenerationRequest(PaintFields):
    """POST /v1/images/generations."""

    best_of: BestOf = None


class StreamedGenerationRequest(GenerationRequest):
    """`generate` on the websocket, which may also ask for state snapshots of one layer and head."""

    state: list[int] | None = None
    """[layer, head], from 0; answered by `state` messages"""

    @field_validator("state", mode="before")
    @classmethod
    def _layer_and_head(cls, value: Any) -> Any:
        fits = (
            isinstance(value, list)
            and len(value) == 2
            and all(type(part) is int and part >= 0 for part in value)
        )
        if value is None or fits:
            return value
        raise InvalidInput("state must be [layer, head], two whole numbers from 0.", "state")


class PictureFields(SizeFields):
    """The fields of every request about given images: their files, and how they are read."""

    image: Annotated[list[bytes], Field(min_length=1)]
    """a picture, or a list of several"""
    clean: Annotated[Clean, Field(description=CLEAN)] = "off"


class MaskFields(PictureFields):
    """The fields of requests about partly known images."""

    mask: bytes | None = None
    """a picture: where it is transparent, or black without transparency, pixels are hidden"""
    keep_rows: Annotated[int | None, Field(ge=0)] = None
    """known rows at the top, instead of a mask"""
    particles: Particles = None

    @model_validator(mode="after")
    def _one_mask(self) -> "MaskFields":
        if self.mask is not None and self.keep_rows is not None:
            raise InvalidInput(
                "mask and keep_rows exclude each other; send one of them.", "keep_rows"
            )
        return self

    @property
    def has_mask(self) -> bool:
        """Whether one mask is given for all images."""
        return self.mask is not None or self.keep_rows is not None


class EditRequest(PaintFields, MaskFields):
    """POST /v1/images/edits, images as bytes. The known pixels are given by
    mask, keep_rows or each image's alpha.

    A guided image has one particle, also where `particles` is absent.
    """


class LikelihoodRequest(MaskFields):
    """POST /v1/images/likelihoods: of whole images, or of the known
    pixels that mask or keep_rows give.
    """

    class_name: Class = None
    per_pixel: bool = False
    """also the bits of every byte, of images of at most 2^22 bytes in all"""
    repeats: Repeats = DEFAULT_REPEATS
    seed: Seed = None
    user: User = None

    @model_validator(mode="after")
    def _fields_of_a_mask(self) -> "LikelihoodRequest":
        for name in ("particles", "repeats", "seed"):
            if (
                name in self.model_fields_set
                and getattr(self, name) is not None
                and not self.has_mask
            ):
                raise InvalidInput(f"{name} needs a mask or keep_rows.", name)
        if self.per_pixel and self.has_mask:
            raise InvalidInput(
                "per_pixel and a mask exclude each other; leave one of them out.", "per_pixel"
            )
        return self


class StepsRequest(PictureFields):
    """POST /v1/images/steps: the numbers of some steps of one image, in one layer and head."""

    class_name: Class = None
    layer: Annotated[int, Field(ge=0)]
    """whose numbers"""
    head: Annotated[int, Field(ge=0)]
    """of this layer"""
    first: Annotated[int, Field(ge=0)] = 0
    """the first step"""
    steps: Annotated[
        int, Field(ge=1, le=MAX_INSPECTED_STEPS), _whole_number(1, MAX_INSPECTED_STEPS)
    ] = 1
    """how many; fewer where the image ends; pixels from the last one on are not read"""


class ClassificationRequest(PictureFields):
    """POST /v1/images/classifications."""

    by_bits: bool = False
    """where a class head reads the images, also read each under every class: ten or twenty times
    slower"""
    clean: Annotated[Clean, Field(description=CLEAN)] = "auto"
    user: User = None


class CodesRequest(PictureFields):
    """POST /v1/images/codes."""

    class_name: CodedClass = None
    output_format: Literal["json", "file"] = "json"
    """json: a code of each image by itself; file: one .scan file of all of them"""
    images_a_code: Annotated[
        int | None, Field(ge=1, le=MAX_A_CODE), _whole_number(1, MAX_A_CODE)
    ] = None
    """of a file: fewer are found and decoded sooner, more take less space; about 8 KB if absent"""
    user: User = None

    @field_validator("output_format", mode="before")
    @classmethod
    def _null_is_the_default(cls, value: Any) -> Any:
        return "json" if value is None else value


class DecodingRequest(OutputFields):
    """POST /v1/images/decodings, codes as bytes."""

    code: Annotated[list[bytes], Field(min_length=1)]
    """a .scan file, or a list of several"""
    images: str | int | list[int | str] | None = None
    """which images, from 0, all codes numbered through: such as "3,17-20"; all if absent"""
    unchecked: bool = False
    """return what a code paints even where its checksum differs"""

    def ranges(self, count: int) -> list[range]:
        """Return which of `count` images are asked for; InvalidInput where one does not exist."""
        if self.images is None:
            return [range(count)]
        every = self.images if isinstance(self.images, list) else [self.images]
        return ranges(",".join(map(str, every)), count, "images")


def field_names(schema: type[BaseModel]) -> frozenset[str]:
    """Return the names of a schema's fields as clients write them."""
    return frozenset(field.alias or name for name, field in schema.model_fields.items())
