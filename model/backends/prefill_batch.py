"""What a backend is asked to run of known bytes: the argument of `Backend.prefill`, and what a
`PrefillState` runs."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from scanline.model.base.state import State


@dataclass(frozen=True)
class PrefillBatch:
    """Known bytes of B images, those of image i from its state's position to stops[i] - 1.

    An image whose position is its stop already is left as it is; the
    positions of all others are the same.
    """

    images: torch.Tensor  # [B, N] uint8
    state: State  # moved to `stops` IN PLACE
    stops: np.ndarray  # [B] int64
    labels: torch.Tensor  # [B] int64 on the images' device, as in ImageSpec
    # [B] int64, of a model that predicts categorical distributions: a byte costs what it and
    # those that differ no more cost together
    tolerances: np.ndarray
    # The position of the images that are not at their stop, where the caller
    # knows it: then no GPU is waited for.
    start: int | None = None
    # [B, max(stops) or more, 2] int32 on the images' device, changed IN PLACE: of each byte
    # that is run, where its interval starts and how wide it is (kernels/codec), by the
    # parameters that `advance` would compute
    intervals: torch.Tensor | None = None

    @classmethod
    def of(
        cls,
        images: torch.Tensor,
        state: State,
        stops: np.ndarray,
        labels: torch.Tensor | None = None,
        tolerances: np.ndarray | None = None,
        intervals: torch.Tensor | None = None,
    ) -> "PrefillBatch":
        """Return a batch in which labels and tolerances are 0 by default."""
        labels = (
            torch.zeros(len(images), dtype=torch.int64, device=images.device)
            if labels is None
            else labels
        )
        tolerances = np.zeros(len(images), np.int64) if tolerances is None else tolerances
        return cls(images, state, stops, labels, tolerances, intervals=intervals)

    def chosen(self, rows: np.ndarray) -> "PrefillBatch":
        """Return a copy of the images of these rows [n] int64, with their states."""
        at = torch.from_numpy(rows)
        return replace(
            self,
            images=self.images[at],
            state=self.state.chosen(at),
            stops=self.stops[rows],
            labels=self.labels[at],
            tolerances=self.tolerances[rows],
            intervals=None if self.intervals is None else self.intervals[at],
        )
