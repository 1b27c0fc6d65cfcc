"""An image of a class that is painted by two slots: one with its label, one
without (classifier-free guidance).

Both draw the same bytes, from the logits of both, so the second one is no candidate of its own.
"""

from dataclasses import replace

from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.sampling.kinds.kind import Kind


class Guided(Kind):
    slots = 2

    def labels(self, label: int) -> tuple[int, ...]:
        return label, 0

    def specs(self, spec: ImageSpec) -> tuple[ImageSpec, ...]:
        return spec, replace(spec, label=0)


GUIDED = Guided()
