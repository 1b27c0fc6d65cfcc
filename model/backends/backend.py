"""What every backend does."""

from typing import Protocol

import torch

from scanline.model.backends.slots import SlotPool
from scanline.model.state import State


class Backend(Protocol):
    """One network made ready for one device. An image's arithmetic never depends on what else is in the batch."""

    name: str  # for people: what computes, and how
    build: str  # whatever its results' bits depend on beside the model and the precision: equal builds, equal bits
    rows: int  # a pool's number of slots must be a multiple of this
    state_dtype: torch.dtype  # in which s is stored between steps
    reads_at_once: int  # images that `read` computes side by side; more take their time one after the other
    reads_in_pieces: bool  # whether `read` gives the same bits however its bytes are divided into calls

    def warm_up(self, slots: SlotPool) -> None:
        """Prepares all that a call with these slots may need; changes no image."""

    def advance(self, slots: SlotPool, steps: int) -> None:
        """Paints up to `steps` steps of every image that is not done, IN PLACE."""

    def read(self, images: torch.Tensor, state: State, stop: int) -> torch.Tensor:
        """Runs known bytes of images [B, N] uint8, from the state's position (the same for all) to stop - 1.

        Returns the cost of each of them, bits [B, n] float64; `state` is moved to `stop` IN PLACE.
        """

    def close(self) -> None:
        """Ends the backend's threads and frees its memory."""
