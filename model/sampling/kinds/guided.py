"""An image of a class that is painted by two slots: one with its label, one
without (classifier-free guidance).

Both draw the same bytes, from the logits of both, so the second one is no candidate of its own.
"""

from dataclasses import replace

from scanline.model.base.inputs import InvalidInput
from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.sampling.kinds.kind import Kind


class Guided(Kind):
    slots = 2
    param = "guidance"
    counted = ", each guided image counted as two"
    unless = ", two each unless it is 1,"

    def __init__(self, guidance: float) -> None:
        self.guidance = guidance

    def check_slots(self, slots: int) -> None:
        """See Kind.check_slots."""
        if slots == 1:
            message = "This server has one slot, and a guided image needs two."
            raise InvalidInput(message, self.param, "guidance_not_supported")

    def labels(self, label: int) -> tuple[int, ...]:
        return label, 0

    def specs(self, spec: ImageSpec) -> tuple[ImageSpec, ...]:
        return spec, replace(spec, label=0)
