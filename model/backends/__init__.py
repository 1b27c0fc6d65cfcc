"""Ways to run a network, one class a file: `native` (a CPU's own library), `eager` (torch, anywhere),
`cuda` (Triton). The way is chosen once, told once, and may be forced.
"""

import logging
from typing import Protocol

import torch

from model.slots import Slots
from model.state import State
from model.transformer import Transformer

log = logging.getLogger("scanline.model")


class Backend(Protocol):
    """One network made ready for one device. An image's arithmetic never depends on its company."""

    name: str  # for people: what computes, and how
    rows: int  # seats are taken in multiples of this
    resting: torch.dtype  # of states between steps

    def advance(self, slots: Slots, steps: int) -> None:
        """Paints up to `steps` bytes of every image that is not done, IN PLACE."""

    def read(self, images: torch.Tensor, state: State, stop: int) -> torch.Tensor:
        """Runs known bytes of images [B, N] uint8, from the state's position (the same for all) to stop - 1.

        Returns the bits [B, n] float64 that each of them costs; `state` is moved to `stop` IN PLACE.
        """

    def close(self) -> None:
        """Ends its threads."""


def choose(model: Transformer, threads: int | None = None, name: str | None = None) -> Backend:
    """The fastest way for the model's device, or the one of that name."""
    from model.backends.eager import EagerBackend

    backend = EagerBackend(model, threads)
    log.info("steps run by %s", backend.name)
    return backend
