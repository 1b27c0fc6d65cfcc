"""Groups of slots: those of images that several slots paint, of which one is chosen."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Groups:
    """Groups of P particles each; a group stands at one position, all known bytes before which are
    weighed."""

    # [G, P] int64, all different; a group's first is its leader, in which its image ends
    slots: np.ndarray
    position: np.ndarray  # [G] int64: of the byte that comes next
