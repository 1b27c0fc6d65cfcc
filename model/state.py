"""The recurrent state of a batch of images: an argument, never a member of a network.

An image in flight is its (s, z) of every layer, a position and, with a causal convolution, what that keeps of the last
row of pixels; none of it grows.
"""

from dataclasses import dataclass

import torch

from scanline.model.config import ModelConfig

NUMBERS = ("s", "z", "conv_state")  # the arrays of a state besides its positions; images are their second dimension


@dataclass
class State:
    """(s, z) of every layer (eq. 16-19) and each image's position. s may be stored in 16 bits; sums are float32."""

    s: torch.Tensor  # [L, B, H, C, M]
    z: torch.Tensor  # [L, B, H, C]
    position: torch.Tensor  # [B] int64: the byte that comes next
    conv_state: torch.Tensor  # [E, B, R, D] float32: of each convolution, pixel p in row p mod R (kernels/causal_conv)

    @classmethod
    def zeros(
        cls,
        config: ModelConfig,
        batch: int,
        device: torch.device | str = "cpu",
        state_dtype: torch.dtype = torch.float32,
    ) -> "State":
        """Return s_0 = 0 in `state_dtype`, z_0 = 0 (eq. 16, 17), at the first byte that the network predicts."""
        shape = (config.layers, batch, config.heads, config.key_width)
        return cls(
            s=torch.zeros(*shape, config.value_width, device=device, dtype=state_dtype),
            z=torch.zeros(*shape, device=device),
            position=torch.full((batch,), config.first, dtype=torch.int64, device=device),
            conv_state=torch.zeros(config.convolutions, batch, config.conv_pixels, config.model_width, device=device),
        )

    def copy(self) -> "State":
        """Return a state of its own with the same numbers."""
        return State(self.s.clone(), self.z.clone(), self.position.clone(), self.conv_state.clone())

    def part(self, first: int, stop: int) -> "State":
        """Return a view of images first..stop-1."""
        return State(
            self.s[:, first:stop], self.z[:, first:stop], self.position[first:stop], self.conv_state[:, first:stop]
        )

    def chosen(self, rows: torch.Tensor) -> "State":
        """Return a copy of the images of these rows [n], int64 or bool."""
        return State(self.s[:, rows], self.z[:, rows], self.position[rows], self.conv_state[:, rows])

    def put(self, rows: torch.Tensor | slice, state: "State") -> None:
        """Replace the images of these rows [n], IN PLACE."""
        self.position[rows] = state.position
        for name in NUMBERS:
            getattr(self, name)[:, rows] = getattr(state, name)

    @property
    def nbytes(self) -> int:
        """The memory of its numbers."""
        return sum(getattr(self, name).nbytes for name in NUMBERS)
