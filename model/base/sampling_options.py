"""How bytes are drawn: each option with its limits, a user's words, a model's
defaults and what a request carries.

A new option is a field of SamplingOptions, DrawingParams and Defaults, checked in
`Defaults._checked`. A model's defaults are generation_config.json of its directory, as Hugging
Face calls it: `class`, `guidance` and `best_of` of images painted from nothing, `particles` of
completions, `temperature` of both. A completion has no class unless one is asked for: one that
is drawn would not fit the known pixels.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Annotated, Any, TypeAlias, TypedDict, TypeVar, Unpack, cast, get_args

from scanline.model.base.class_names import (
    ClassNames,
    as_class,
    drawn_label,
    is_any,
    label_of_class,
    label_of_prompt,
    labels_of_list,
    listed_in,
)
from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput, number, whole_number

MIN_TEMPERATURE = 0.0  # the likeliest byte
# What that is drawn with: a power of 2, by which logits are divided exactly, so
# small that of two different ones the lesser has no probability left, and large
# enough that the quotients are float32 numbers.
LEAST_DIVISOR = 2.0**-66
MAX_TEMPERATURE = 2.0
MAX_GUIDANCE = 10.0  # beyond it, only the likeliest bytes are left
MAX_PARTICLES = 64  # of a completion
MAX_BEST_OF = 8  # candidates of an image
DEFAULT_PARTICLES = 16  # where a known byte follows a hidden one; else one
FIELDS = {
    "class": "class_name",
    "guidance": "guidance",
    "temperature": "temperature",
    "particles": "particles",
    "best_of": "best_of",
}
Function = TypeVar("Function", bound=Callable[..., Any])


class SamplingOptions(TypedDict, total=False):
    """What a user may say of how images are drawn; absent or None: the model's default. Each with
    the words of the command line for it and for its default."""

    temperature: Annotated[
        float | None,
        f"Sampling temperature, from {MIN_TEMPERATURE:g}, the likeliest bytes, to {MAX_TEMPERATURE:g}.",
        "the model's",
    ]
    guidance: Annotated[
        float | None,
        f"Classifier-free guidance weight, 1 to {MAX_GUIDANCE:g}; above 1, each image needs two states.",
        "the model's for images of a class, else 1",
    ]


class GenerationOptions(SamplingOptions, total=False):
    """Of images that are painted from nothing."""

    best_of: Annotated[
        int | None,
        f"Candidates of each image of a class, 1 to {MAX_BEST_OF}, of which the class head chooses one.",
        "the model's for images of a class, else 1",
    ]


class EstimateOptions(TypedDict, total=False):
    """Of estimates of what known pixels cost, which are made of completions at temperature 1."""

    particles: Annotated[
        int | None,
        f"Particles of each completion, 1 to {MAX_PARTICLES}; more fit the known pixels after the hidden ones"
        " better. Not used without such pixels, or with --guidance.",
        "the model's",
    ]


class CompletionOptions(SamplingOptions, EstimateOptions, total=False):
    """Of completions."""


class PaintOptions(GenerationOptions, CompletionOptions, total=False):
    """Of both; each has fields that the other lacks."""


def spelled_out(
    function: Function, shown_as: Callable[[Any], Any] = lambda kind: get_args(kind)[0]
) -> Function:
    """Show the fields of a function's last parameter, `**options`, as its first
    keywords, and refuse all others; None is as not given. shown_as: returns the
    annotation of one, by default its type."""
    signature = inspect.signature(function)
    *named, rest = signature.parameters.values()
    options = get_args(rest.annotation)[0].__annotations__
    keywords = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=shown_as(kind)
        )
        for name, kind in options.items()
    ]
    positional = [
        parameter for parameter in named if parameter.kind != inspect.Parameter.KEYWORD_ONLY
    ]
    others = named[len(positional) :]
    shown = signature.replace(parameters=[*positional, *keywords, *others])

    @wraps(function)
    def call(*args: Any, **arguments: Any) -> Any:
        try:
            shown.bind(*args, **arguments)
        except TypeError as error:
            raise TypeError(f"{function.__qualname__}() {error}") from None
        for name in options:
            if arguments.get(name) is None:
                arguments.pop(name, None)
        return function(*args, **arguments)

    call.__signature__ = shown  # type: ignore[attr-defined]
    return cast(Function, call)


@dataclass(frozen=True, kw_only=True)
class DrawingParams:
    """How the bytes of an image are drawn."""

    temperature: float = 1.0
    # Above 1, bytes of images with a class are drawn from the logits u + guidance (c - u) of
    # those with the label, c, and without, u.
    guidance: float = 1.0

    @property
    def used(self) -> dict[str, Any]:
        """What decides the bytes besides random numbers and classes, as answers have it."""
        names = [field.name for field in fields(DrawingParams)]
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class DrawnLabel:
    """Each image has one of so many classes, every one equally likely."""

    classes: int


# the label of all images, of each of them in order, or one that is drawn for each
Labels: TypeAlias = int | tuple[int, ...] | DrawnLabel


@dataclass(frozen=True, kw_only=True)
class SamplingParams(DrawingParams):
    """What the images of a request are painted with: its own values or the model's defaults."""

    label: Labels = 0
    # of each image that the known bytes after its first hidden one can weigh; 1 with guidance
    particles: int = 1
    best_of: int = 1  # candidates of those with a class, of which the class head chooses one

    @property
    def listed(self) -> int | None:
        """The number of images of a list of classes; None where there is no list."""
        return len(self.label) if isinstance(self.label, tuple) else None


@dataclass(frozen=True)
class Defaults:
    """The defaults of a model; without generation_config.json, no class, no guidance, temperature
    1, 16 particles, no choice between candidates."""

    class_name: str | None = None
    guidance: float = 1.0
    temperature: float = 1.0
    particles: int = DEFAULT_PARTICLES
    best_of: int = 1

    @classmethod
    def from_dict(cls, data: dict[str, Any], config: ModelConfig) -> "Defaults":
        """Return the defaults of a generation_config.json; ValueError where a field is wrong or not
        one."""
        unknown = sorted(set(data) - set(FIELDS))
        if unknown:
            raise ValueError(f"unknown field {unknown[0]!r}; it may have {', '.join(FIELDS)}")
        values = {FIELDS[name]: value for name, value in data.items()}
        for name in ("guidance", "temperature"):
            value = values.get(name, 1)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name} must be a number, not {value!r}")
        is_name = isinstance(values.get("class_name", ""), str | None)
        if not is_name or values.get("particles", 1) is None:
            raise ValueError("class must be a name or null, and particles a whole number")
        defaults = cls(**values)
        check_guidance(defaults.guidance, True, config)
        checked_best_of(defaults.best_of, True)
        defaults.to_paint(config)
        defaults.to_complete(config, particles=defaults.particles)
        return defaults

    def to_dict(self) -> dict[str, Any]:
        """Return the fields under the names that requests and the file have."""
        return {name: getattr(self, field) for name, field in FIELDS.items()}

    @spelled_out
    def to_paint(
        self,
        config: ModelConfig,
        class_name: ClassNames | None = None,
        *,
        prompt: str = "",
        **options: Unpack[GenerationOptions],
    ) -> SamplingParams:
        """Return what images are painted from nothing with. class_name: "none" asks for no class, a
        list one image of each, as a prompt of characters that are classes does. InvalidInput where
        a class is not known, class and prompt differ, or a number is out of its range."""
        asked = None if class_name is None else as_class(class_name)
        if asked is None and not prompt.strip():
            asked = self.class_name
        written = listed_in(config, prompt, "prompt") if prompt else []
        if isinstance(asked, list) or written:
            if asked is not None and prompt.strip():
                raise InvalidInput(
                    "class and prompt exclude each other where one is a list; send one.", "class"
                )
            labels: Labels = labels_of_list(config, written if asked is None else [*asked])
        elif asked is not None and is_any(config, asked):
            _agreed(config, 0, asked, prompt)
            labels = DrawnLabel(len(config.classes))
        else:
            label = 0 if asked is None else label_of_class(config, asked)
            labels = _agreed(config, label, asked, prompt)
        params = self._checked(config, options, self.guidance, labels)
        has_class = is_of_classes(labels)
        best_of = options.get("best_of", self.best_of if has_class else 1)
        return replace(params, best_of=checked_best_of(best_of, has_class))

    @spelled_out
    def to_complete(
        self,
        config: ModelConfig,
        class_name: ClassNames | None = None,
        *,
        prompt: str = "",
        **options: Unpack[CompletionOptions],
    ) -> SamplingParams:
        """Return what images are completed with; errors as of `to_paint`."""
        label = _agreed(config, label_of_class(config, class_name), class_name, prompt)
        params = self._checked(config, options, 1.0, label)
        particles = checked_particles(options.get("particles"), params.guidance, self.particles)
        return replace(params, particles=particles)

    def to_estimate(self, label: int, options: EstimateOptions) -> SamplingParams:
        """Return what images of a class are completed with to estimate what their known pixels
        cost; errors as of `to_paint`."""
        particles = checked_particles(options.get("particles"), default=self.particles)
        return SamplingParams(label=label, particles=particles)

    def _checked(
        self,
        config: ModelConfig,
        options: SamplingOptions,
        guidance: float,
        label: Labels,
    ) -> SamplingParams:
        """guidance: of images with a class, where the options have none."""
        asked = {
            name: number(value, name)
            for name, value in options.items()
            if name in ("temperature", "guidance")
        }
        has_class = is_of_classes(label)
        temperature = asked.get("temperature", self.temperature)
        guidance = asked.get("guidance", guidance if has_class else 1.0)
        check_temperature(temperature)
        check_guidance(guidance, has_class, config)
        return SamplingParams(temperature=temperature, guidance=guidance, label=label)


def limits_of(config: ModelConfig) -> dict[str, float | None]:
    """Return the limits of options that depend on the model, as its card has them."""
    return {"max_guidance": MAX_GUIDANCE if config.can_be_guided else None}


def label_of(labels: Labels, seed: int, index: int) -> int:
    """Return the label of image `index`."""
    if isinstance(labels, tuple):
        return labels[index]
    if isinstance(labels, DrawnLabel):
        return drawn_label(labels.classes, seed, index)
    return labels


def is_of_classes(labels: Labels) -> bool:
    """Return whether any image has a class."""
    return any(labels) if isinstance(labels, tuple) else labels != 0


def has_class(labels: Labels, index: int) -> bool:
    """Return whether image `index` has a class; nothing is drawn for the answer."""
    label = labels[index] if isinstance(labels, tuple) else labels
    return label != 0


def check_temperature(temperature: float) -> None:
    """Raise InvalidInput unless 0 <= temperature <= 2."""
    if not MIN_TEMPERATURE <= temperature <= MAX_TEMPERATURE:
        limits = f"from {MIN_TEMPERATURE:g} to {MAX_TEMPERATURE:g}"
        raise InvalidInput(f"temperature must be {limits}, not {temperature:g}.", "temperature")


def check_guidance(guidance: float, has_class: bool, config: ModelConfig) -> None:
    """Raise InvalidInput unless guidance is 1, or with a class above it to MAX_GUIDANCE, of a model
    with classes."""
    if not 1 <= guidance <= MAX_GUIDANCE:
        reason = f"guidance must be from 1 (none) to {MAX_GUIDANCE:g}, not {guidance:g}."
        raise InvalidInput(reason, "guidance")
    if guidance == 1:
        return
    if not config.can_be_guided:
        reason = "This model cannot be guided: it knows no classes; leave guidance out."
        raise InvalidInput(reason, "guidance", "guidance_not_supported")
    if not has_class:
        raise InvalidInput("guidance needs a class, or a prompt that names one.", "guidance")


def checked_best_of(best_of: int | None, has_class: bool) -> int:
    """Return the candidates of each image of a class; InvalidInput outside 1..MAX_BEST_OF, and for
    several without a class."""
    best_of = whole_number(best_of, 1, MAX_BEST_OF, "best_of")
    if best_of > 1 and not has_class:
        raise InvalidInput("best_of needs a class, or a prompt that names one.", "best_of")
    return best_of


def checked_particles(
    particles: int | None, guidance: float = 1.0, default: int = DEFAULT_PARTICLES
) -> int:
    """Return the particles of a completion, or the default for None, which is 1 where guidance is
    above 1; InvalidInput outside 1..MAX_PARTICLES, and for several with guidance."""
    if particles is None:
        return default if guidance == 1 else 1
    particles = whole_number(particles, 1, MAX_PARTICLES, "particles")
    if particles > 1 and guidance != 1:
        raise InvalidInput(
            "guidance and particles cannot be combined; send one of them.", "particles"
        )
    return particles


def _agreed(config: ModelConfig, label: int, class_name: ClassNames | None, prompt: str) -> int:
    """Return the label that class or prompt asks for; InvalidInput where they differ."""
    prompted = label_of_prompt(config, prompt) if prompt else 0
    if class_name is not None and prompted not in (0, label):
        raise InvalidInput("class and prompt name different classes; send one of them.", "class")
    return label or prompted
