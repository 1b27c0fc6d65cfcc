"""How exactly a network is run: what its weights are held as, and its states between two bytes.

`exact` loses nothing: weights as they are stored, float32 arithmetic, float32 states. The others move fewer bytes; what
each costs in bits/dim is measured per model (`scanline evaluate --precision`). Same seed, same image holds within one.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the command line reads the names below before it needs torch
    import torch

    from scanline.model.config import ModelConfig


@dataclass(frozen=True)
class Precision:
    """One way to hold numbers."""

    int8_weights: bool = False  # and activations, in all products but the last one
    float16_state: bool = False  # s between steps; z stays float32

    @property
    def state_dtype(self) -> "torch.dtype":
        """Of s between steps."""
        import torch

        return torch.float16 if self.float16_state else torch.float32

    def state_bytes(self, config: "ModelConfig") -> int:
        """Of (s, z) of one image in flight."""
        return config.layers * config.heads * config.key_width * (self.state_dtype.itemsize * config.value_width + 4)


PRECISIONS = {
    "exact": Precision(),
    "float16-state": Precision(float16_state=True),
    "int8": Precision(int8_weights=True),
    "int8-float16-state": Precision(int8_weights=True, float16_state=True),
}
DEFAULT = "exact"


def precision(name: str) -> Precision:
    """The precision of that name; ValueError with the known names otherwise."""
    try:
        return PRECISIONS[name]
    except KeyError:
        raise ValueError(f"unknown precision {name!r}; known: {', '.join(PRECISIONS)}") from None
