"""An image of a class of which several candidates are painted, each with random numbers of its own.
The class head reads all of them, and the one that it likes best is the image (choices.py).

Candidate 0 is the image that would be painted without others.
"""

from dataclasses import replace

from scanline.model.sampling.kinds.image_spec import ImageSpec
from scanline.model.sampling.kinds.kind import Kind


class BestOf(Kind):
    is_chosen_by_head = True
    param = "best_of"

    def __init__(self, count: int, candidate: Kind) -> None:
        """candidate: the kind of each."""
        self.candidates = count
        self.candidate = candidate
        self.slots = count * candidate.slots
        self.counted = f", each image counted as {self.slots}"
        self.unless = f", {self.slots} each,"
        self.needs = f"the best of {count} such images needs {self.slots}"

    def drawn(self, spec: ImageSpec) -> ImageSpec:
        return self.candidate.drawn(spec)

    def labels(self, label: int) -> tuple[int, ...]:
        return self.candidate.labels(label)

    def specs(self, spec: ImageSpec) -> tuple[ImageSpec, ...]:
        """See Kind.specs: candidate by candidate."""
        specs: list[ImageSpec] = []
        for number in range(self.candidates):
            specs += self.candidate.specs(replace(spec, particle=number))
        return tuple(specs)
