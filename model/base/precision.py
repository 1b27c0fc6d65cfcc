"""The precision of a network's weights, and of its states between two steps.

`exact` rounds nothing: weights as they are stored, float32 arithmetic, float32 states. `int8` has
one arithmetic on CPUs and GPUs, `bfloat16-state` needs a GPU; both move fewer bytes. Their cost in
bits/dim is measured per model (`scanline evaluate --precision`). The same seed gives the same image
within one precision.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:  # the command line reads the names below before it needs torch
    import torch

    from scanline.model.base.config import ModelConfig

PrecisionName = Literal["exact", "int8", "bfloat16-state"]
# Steps at most that an image on a GPU keeps beside s and z, which are so read in each step
# and written in every fourth: 0.69 of the bytes of writing them each time, with heads of
# 32; six would save a hundredth more.
DEFERRED = 3


@dataclass(frozen=True)
class Precision:
    """How numbers are stored."""

    int8_weights: bool = False  # and activations in 8 bits, in the products of blocks and layers
    bfloat16_state: bool = False  # s between steps, which is too large for float16; z stays float32

    @property
    def state_dtype(self) -> "torch.dtype":
        """The type in which s is stored between steps."""
        import torch

        return torch.bfloat16 if self.bfloat16_state else torch.float32

    def state_bytes(self, config: "ModelConfig", device: str = "cpu") -> int:
        """Return the bytes of the state of one image in flight, on "cpu" or "cuda"."""
        numbers = config.layers * config.heads * config.key_width * config.value_width  # of s
        deferred = DEFERRED * config.layers * config.heads * (config.key_width + config.value_width)
        state = config.state_bytes_per_image - (4 - self.state_dtype.itemsize) * numbers
        if device == "cuda":
            state += 4 * deferred
        return state


PRECISIONS: dict[PrecisionName, Precision] = {
    "exact": Precision(),
    "int8": Precision(int8_weights=True),
    "bfloat16-state": Precision(bfloat16_state=True),
}
DEFAULT: PrecisionName = "exact"
PRECISION_HELP = (
    "exact, int8 (the same bytes on CPU and GPU) or bfloat16-state (GPU): fewer bytes moved,"
    " nearly the same bits."
)


def precision(name: str) -> Precision:
    """Return the precision of that name; ValueError with the known names otherwise."""
    for known, value in PRECISIONS.items():
        if known == name:
            return value
    raise ValueError(f"unknown precision {name!r}; known: {', '.join(PRECISIONS)}")
