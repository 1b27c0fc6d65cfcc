"""Inspection: every number of some steps of one image, in one layer and head."""

from collections.abc import Sequence
from dataclasses import dataclass

from scanline.model.base.class_names import label_of_class
from scanline.model.base.config import ModelConfig
from scanline.model.base.inputs import InvalidInput
from scanline.model.formats.model_dir import ModelInfo
from scanline.model.images.cleaning import Cleaned
from scanline.model.sampling.base.messages import (
    Event,
    Scored,
    ScoreRequest,
    StepNumbers,
    StepRange,
)
from scanline.model.tasks.task import ReadTask


@dataclass(frozen=True)
class InspectValues:
    """What a user says of steps to inspect, besides the image."""

    layer: int  # from 0
    head: int  # from 0
    first: int = 0  # step
    steps: int = 1
    class_name: str | None = None
    pictures: int = 1


class InspectTask(ReadTask):
    """One image that is read up to the end of its inspected steps."""

    count = 1

    def __init__(self, steps: StepRange, label: int) -> None:
        self.steps = steps
        self.label = label
        self.numbers: StepNumbers | None = None

    def fill(self, images: Sequence[Cleaned]) -> None:
        """See ReadTask.fill."""
        (part,) = images
        image = part.images[0].tobytes()
        self.request = ScoreRequest(0, (image,), (self.label,), inspected=self.steps)

    def receive(self, event: Event) -> None:
        """See Task.receive."""
        if isinstance(event, Scored):
            self.numbers = event.steps

    @property
    def held_bytes(self) -> int:
        """The bytes of the numbers."""
        return 0 if self.numbers is None else sum(map(len, self.numbers.arrays.values()))

    def result(self) -> StepNumbers:
        """Return the numbers of the steps."""
        assert self.numbers is not None
        return self.numbers


def plan(model: ModelInfo, values: InspectValues) -> InspectTask:
    """Return the task that inspects steps; InvalidInput where the model has no such layer, head or
    step, there is not one image, or the class is not known."""
    config = model.config
    check_layer_and_head(config, values.layer, values.head, "layer", "head")
    if values.first >= config.steps:
        raise InvalidInput(f"first: this model has steps 0 to {config.steps - 1}.", "first")
    if values.pictures != 1:
        raise InvalidInput("image must be one picture.", "image")
    first = config.first + values.first * config.step_bytes
    stop = min(first + values.steps * config.step_bytes, config.bytes)
    steps = StepRange(values.layer, values.head, first, stop)
    return InspectTask(steps, label_of_class(config, values.class_name))


def check_layer_and_head(
    config: ModelConfig, layer: int, head: int, of_layer: str, of_head: str
) -> None:
    """Raise InvalidInput, with the name of the layer's or the head's parameter, where the model has
    no such one."""
    if layer >= config.layers or head >= config.heads:
        param = of_layer if layer >= config.layers else of_head
        has = f"layers 0 to {config.layers - 1} and heads 0 to {config.heads - 1}"
        raise InvalidInput(f"{param}: this model has {has}.", param)
