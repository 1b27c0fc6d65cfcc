"""An image of a class that is painted by two slots: one with its label, one
without (classifier-free guidance).

Both draw the same bytes, from the logits of both, so the second one is no candidate of its own.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.sampling.kinds.kind import Kind

if TYPE_CHECKING:
    from scanline.model.backends.arrivals import Arrivals


class Guided(Kind):
    slots = 2
    param = "guidance"
    counted = ", each guided image counted as two"
    unless = ", two each unless it is 1,"
    needs = "a guided image needs two"
    code = "guidance_not_supported"

    def __init__(self, guidance: float) -> None:
        self.guidance = guidance

    def drawn(self, spec: ImageSpec) -> ImageSpec:
        return replace(spec, guidance=self.guidance)

    def labels(self, label: int) -> tuple[int, ...]:
        return label, 0

    def specs(self, spec: ImageSpec) -> tuple[ImageSpec, ...]:
        return spec, replace(spec, label=0)


def pair(arrivals: "Arrivals", specs: Sequence[ImageSpec]) -> None:
    """Write the images' guidance, and the distance between the two slots of each guided one."""
    guidance = arrivals.guidance.numpy()
    guidance[:] = [spec.guidance for spec in specs]
    rows = np.flatnonzero(guidance != 1)
    slots = arrivals.slots.numpy()[rows]
    partner = arrivals.partner.numpy()
    partner[rows[::2]] = slots[1::2] - slots[::2]
    partner[rows[1::2]] = slots[::2] - slots[1::2]
