"""An image of a request in its slots."""

from dataclasses import dataclass

import numpy as np

from scanline.model.sampling.kinds.kind import Kind
from scanline.model.sampling.kinds.plain import PLAIN


@dataclass(slots=True)
class SlotAssignment:
    """An image of a request in its slots."""

    slots: tuple[int, ...]  # ascending
    request: int
    index: int  # of the image in its request
    client: str = ""
    kind: Kind = PLAIN
    framed: int = 0  # bytes of it up to which frames were made for its stream
    sent: int = 0  # bytes of it that its stream was sent as final
    checks: tuple[int, ...] = ()  # positions at which its steps must stop, ascending
    label: int = 0  # that it is painted with

    @property
    def image(self) -> tuple[int, int]:
        """Its request and its index there."""
        return self.request, self.index

    @property
    def slot(self) -> int:
        """The lowest slot, in which the image ends."""
        return self.slots[0]

    @property
    def candidates(self) -> tuple[int, ...]:
        """The slots that paint bytes of their own."""
        return self.slots[:: len(self.slots) // self.kind.candidates]

    @property
    def ends(self) -> tuple[int, ...]:
        """The slots that are fetched once it is complete."""
        return self.candidates if self.kind.is_chosen_by_head else (self.slot,)

    def painted(self, positions: np.ndarray) -> int:
        """Return the byte up to which all that is painted of it is painted; positions: [slots]."""
        return min(int(positions[slot]) for slot in self.candidates)

    @property
    def is_wanted(self) -> bool:
        """Whether it is sent."""
        return self.kind.is_wanted(self.index)
