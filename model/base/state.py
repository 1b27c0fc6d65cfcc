"""The recurrent state of a batch of images: an argument, never a member of a network.

An image in flight is its (s, z) of every layer, a position and, with a causal convolution,
what that keeps of the last row of pixels; on a GPU also the last steps, up to three, that s
and z do not have yet. None of it grows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from scanline.model.base.config import ModelConfig

# The arrays of a state besides its positions; images are their second dimension.
NUMBERS = ("s", "z", "conv_state", "deferred")


@dataclass
class State:
    """(s, z) of every layer (eq. 16-19) and each image's position. s may be stored in 16 bits; sums
    are float32."""

    s: torch.Tensor  # [L, B, H, C, M]
    z: torch.Tensor  # [L, B, H, C]
    position: torch.Tensor  # [B] int64: the byte that comes next
    # [E, B, R, D] float32: of each convolution, pixel p in row p mod R (kernels/causal_conv)
    conv_state: torch.Tensor
    # [L, B, K, H (C + M)] float32: phi(k) and v of the last n mod (K + 1) of n steps, which
    # s and z do not have yet, in the first rows (kernels/step/fused_triton.py); K is 0
    # where s and z are written in every step
    deferred: torch.Tensor

    @classmethod
    def zeros(
        cls,
        config: ModelConfig,
        batch: int,
        device: torch.device | str = "cpu",
        state_dtype: torch.dtype = torch.float32,
        deferred: int = 0,
    ) -> "State":
        """Return s_0 = 0 in `state_dtype`, z_0 = 0 (eq. 16, 17), at the first byte that the network
        predicts, with room for so many deferred steps."""
        keys = (config.layers, batch, config.heads, config.key_width)
        convolved = (config.convolutions, batch, config.conv_pixels, config.model_width)
        step = config.heads * (config.key_width + config.value_width)
        return cls(
            s=torch.zeros(*keys, config.value_width, device=device, dtype=state_dtype),
            z=torch.zeros(keys, device=device),
            position=torch.full((batch,), config.first, dtype=torch.int64, device=device),
            conv_state=torch.zeros(convolved, device=device),
            deferred=torch.zeros(config.layers, batch, deferred, step, device=device),
        )

    def map(
        self, change: Callable[[torch.Tensor], torch.Tensor], position: torch.Tensor
    ) -> "State":
        """Return a state of this position and of what `change` makes of each other array."""
        arrays = {name: change(getattr(self, name)) for name in NUMBERS}
        return State(position=position, **arrays)

    def copy(self) -> "State":
        """Return a state of its own with the same numbers."""
        return self.map(torch.clone, self.position.clone())

    def part(self, first: int, stop: int) -> "State":
        """Return a view of images first..stop-1."""
        images = slice(first, stop)
        return self.map(lambda array: array[:, images], self.position[images])

    def chosen(self, rows: torch.Tensor) -> "State":
        """Return a copy of the images of these rows [n], int64 or bool."""
        return self.map(lambda array: array[:, rows], self.position[rows])

    def complete(self, step_bytes: int) -> "State":
        """Return a state whose s, in float32, and z have all steps."""
        steps = self.position // step_bytes
        held = steps % (self.deferred.shape[2] + 1)
        s, z = with_deferred(self.s, self.z, self.deferred, held[:, None, None])
        none_deferred = self.deferred[:, :, :0]
        return State(s, z, self.position, self.conv_state, none_deferred)

    def put(self, rows: torch.Tensor | slice, state: "State") -> None:
        """Replace the images of these rows [n], IN PLACE."""
        self.position[rows] = state.position
        for name in NUMBERS:
            array = getattr(self, name)
            array[:, rows] = getattr(state, name)

    @property
    def nbytes(self) -> int:
        """The memory of its numbers."""
        return sum(getattr(self, name).nbytes for name in NUMBERS)

    @property
    def traffic(self) -> float:
        """The bytes that the recurrence of a step reads and writes, on average over its positions."""
        every = self.deferred.shape[2] + 1  # steps, after which s and z are written
        sums = self.s.nbytes + self.z.nbytes
        of_sums = sums * (1 + 1 / every)
        of_deferred = self.deferred.nbytes * (1 / 2 + 1 / every)
        return of_sums + of_deferred


def with_deferred(
    s: torch.Tensor,  # [..., H, C, M]
    z: torch.Tensor,  # [..., H, C]
    deferred: torch.Tensor,  # [..., K, H (C + M)]
    held: torch.Tensor,  # int64 [..., 1, 1] or []
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return s, in float32, and z after the first `held` of the deferred steps, added as the
    kernel adds them."""
    heads, key_width, value_width = s.shape[-3:]
    s = s.float()
    for number in range(deferred.shape[-2]):
        step = deferred[..., number, :]
        k, v = step.split((heads * key_width, heads * value_width), dim=-1)
        k = k.unflatten(-1, (heads, key_width))
        v = v.unflatten(-1, (heads, value_width))
        is_held = number < held
        outer = k[..., :, None] * v[..., None, :]
        s = torch.where(is_held[..., None], s + outer, s)
        z = torch.where(is_held, z + k, z)
    return s, z
