"""What images are painted with where a request does not say: generation_config.json of a model directory.

The file's name is Hugging Face's convention. Its fields are those of requests: `class` and `guidance` of images painted
from nothing, `particles` of completions, `temperature` of both. A completion has no class unless one is asked for:
one that is drawn would not fit the known pixels.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scanline.model.class_names import label_of_class, label_of_prompt, label_to_paint, labels_of_list, listed_in
from scanline.model.config import ModelConfig
from scanline.model.inputs import DEFAULT_PARTICLES, InvalidInput, check_guidance, check_temperature, checked_particles

FIELDS = {"class": "class_name", "guidance": "guidance", "temperature": "temperature", "particles": "particles"}


@dataclass(frozen=True)
class SamplingParams:
    """What a request paints with, its own values or the model's defaults; the fields are those of GenerateRequest."""

    label: int
    drawn_classes: int
    guidance: float
    temperature: float
    particles: int
    labels: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as arguments of GenerateRequest."""
        return asdict(self)


@dataclass(frozen=True)
class Defaults:
    """The defaults of a model; without generation_config.json, no class, no guidance, temperature 1, 16 particles."""

    class_name: str | None = None
    guidance: float = 1.0
    temperature: float = 1.0
    particles: int = DEFAULT_PARTICLES

    @classmethod
    def from_dict(cls, data: dict[str, Any], config: ModelConfig) -> "Defaults":
        """Return the defaults of a generation_config.json; ValueError where a field is wrong or not one."""
        if unknown := sorted(set(data) - set(FIELDS)):
            raise ValueError(f"unknown field {unknown[0]!r}; it may have {', '.join(FIELDS)}")
        values = {FIELDS[name]: value for name, value in data.items()}
        for name in ("guidance", "temperature"):
            if isinstance(value := values.get(name, 1), bool) or not isinstance(value, int | float):
                raise ValueError(f"{name} must be a number, not {value!r}")
        if not isinstance(values.get("class_name", ""), str | None) or values.get("particles", 1) is None:
            raise ValueError("class must be a name or null, and particles a whole number")
        found = cls(**values)
        check_guidance(found.guidance, True, config)
        found.to_paint(config)
        found.to_complete(config, particles=found.particles)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the fields under the names that requests and the file have."""
        return {name: getattr(self, field) for name, field in FIELDS.items()}

    def to_paint(
        self,
        config: ModelConfig,
        class_name: str | Sequence[str] | None = None,
        guidance: float | None = None,
        temperature: float | None = None,
        *,
        prompt: str = "",
    ) -> SamplingParams:
        """Return what images are painted from nothing with. class_name: "none" asks for no class, a list one image of
        each, as a prompt of characters that are classes does. InvalidInput where a class is not known, class and prompt
        differ, or a number is out of its range."""
        if class_name is None and not prompt.strip():
            class_name = self.class_name
        written = listed_in(config, prompt, "prompt")
        if is_list(class_name) or written:
            if class_name is not None and prompt.strip():
                raise InvalidInput("class and prompt exclude each other where one is a list; send one.", "class")
            labels = labels_of_list(config, class_name or written)
            guidance = (self.guidance if all(labels) else 1.0) if guidance is None else guidance
            return self._checked(config, labels[0], 0, guidance, temperature, 1, labels)
        assert class_name is None or isinstance(class_name, str | int)  # Python's users may give 7
        label, drawn_classes = label_to_paint(config, class_name)
        label = _agreed(config, label, class_name, prompt)
        if guidance is None:
            guidance = self.guidance if label or drawn_classes else 1.0
        return self._checked(config, label, drawn_classes, guidance, temperature, 1)

    def to_complete(
        self,
        config: ModelConfig,
        class_name: str | Sequence[str] | None = None,
        guidance: float | None = None,
        temperature: float | None = None,
        particles: int | None = None,
        *,
        prompt: str = "",
    ) -> SamplingParams:
        """Return what images are completed with; errors as of `to_paint`."""
        if is_list(class_name):
            reason = "a list of classes is for images that are painted from nothing; give one class"
            raise InvalidInput(f"class: {reason}.", "class")
        assert class_name is None or isinstance(class_name, str | int)
        label = _agreed(config, label_of_class(config, class_name), class_name, prompt)
        guidance = 1.0 if guidance is None else guidance
        count = checked_particles(particles, guidance, self.particles)
        return self._checked(config, label, 0, guidance, temperature, count)

    def _checked(
        self,
        config: ModelConfig,
        label: int,
        drawn_classes: int,
        guidance: float,
        temperature: float | None,
        particles: int,
        labels: tuple[int, ...] = (),
    ) -> SamplingParams:
        temperature = self.temperature if temperature is None else temperature
        check_temperature(temperature)
        check_guidance(guidance, all(labels) if labels else bool(label or drawn_classes), config)
        return SamplingParams(label, drawn_classes, float(guidance), float(temperature), particles, labels)


def is_list(class_name: object) -> bool:
    """Return whether a class is given as a list of names."""
    return isinstance(class_name, Sequence) and not isinstance(class_name, str)


def _agreed(config: ModelConfig, label: int, class_name: str | None, prompt: str) -> int:
    """Return the label that class or prompt asks for; InvalidInput where they differ."""
    prompted = label_of_prompt(config, prompt)
    if class_name is not None and prompted not in (0, label):
        raise InvalidInput("class and prompt name different classes; send one of them.", "class")
    return label or prompted
