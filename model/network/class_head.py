"""The class head: which class an image shows, from one reading of it without a class.

What the residual blocks or the first layers compute is averaged over cells of the image
and standardised; one matrix makes logits of it. The head is no part of the network: no
painted byte and no digest depends on it.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import TypeVar

import torch
import torch.nn.functional as F

from scanline.model.base.config import ModelConfig
from scanline.model.base.resources import one_torch_thread, threads
from scanline.model.base.state import State

Part = TypeVar("Part")
Result = TypeVar("Result")

# that a head reads at once: some milliseconds of that device
READ_STEPS = {"cpu": 64, "cuda": 1024}


@dataclass(frozen=True)
class FeatureShape:
    """Which features an image has: of the network's outputs after each of `layers` (0: after the
    residual blocks) the means over `cells` x `cells` cells."""

    layers: tuple[int, ...]
    cells: int

    def count(self, config: ModelConfig) -> int:
        """Return F, the number of features."""
        return len(self.layers) * self.cells**2 * config.model_width

    def averages(
        self, config: ModelConfig, outputs: Sequence[torch.Tensor], start: int
    ) -> torch.Tensor:
        """Return what n steps from byte `start` on add to the features [B, F] of images, from the
        outputs [B, n, D] after 0, 1 and more layers."""
        cells = self.cells
        pixel = torch.arange(config.first, config.bytes, config.step_bytes) // config.channels
        row = pixel // config.width * cells // config.height
        column = pixel % config.width * cells // config.width
        cell = row * cells + column
        first = (start - config.first) // config.step_bytes
        read = cell[first : first + outputs[0].shape[1]]
        # an image may have fewer rows than cells
        count = torch.bincount(cell, minlength=cells**2).clamp(min=1)
        inside = F.one_hot(read, cells**2).T.float()  # [cells^2, n]
        weights = (inside / count.unsqueeze(1)).to(outputs[0].device)
        return torch.cat(
            [(weights @ outputs[layer].float()).flatten(1) for layer in self.layers], dim=1
        )


@dataclass(frozen=True)
class ClassHead:
    """The weights of a head for K classes, float32."""

    shape: FeatureShape
    matrix: torch.Tensor  # [K, F]
    bias: torch.Tensor  # [K]
    mean: torch.Tensor  # [F], of the features
    scale: torch.Tensor  # [F], by which they are divided after that
    # [], by which the logits are divided: then their probabilities are calibrated
    temperature: torch.Tensor

    @classmethod
    def empty(cls, shape: FeatureShape, config: ModelConfig) -> "ClassHead":
        """Return a head of zeros."""
        classes = len(config.classes)
        features = shape.count(config)
        matrix = torch.zeros(classes, features)
        return cls(
            shape,
            matrix,
            torch.zeros(classes),
            torch.zeros(features),
            torch.zeros(features),
            torch.zeros(()),
        )

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The weights by name."""
        return {
            field.name: getattr(self, field.name) for field in fields(self) if field.name != "shape"
        }

    def to(self, device: torch.device) -> "ClassHead":
        """Return the head on a device."""
        return ClassHead(
            self.shape, **{name: tensor.to(device) for name, tensor in self.tensors.items()}
        )

    def logits(self, features: torch.Tensor) -> torch.Tensor:
        """Return the logits [..., K] of features [..., F]."""
        return (
            F.linear((features - self.mean) / self.scale, self.matrix, self.bias) / self.temperature
        )


@dataclass
class ClassReading:
    """An image that a head reads some steps at a time: always the same
    ones, so that they round in one way.
    """

    image: torch.Tensor  # [1, N] uint8
    state: State  # after the bytes that have been read
    position: int  # the first byte after them
    features: torch.Tensor  # [1, F] float32, what they add to the image's


def in_threads(
    parts: Sequence[Part], compute: Callable[[Part], Result], device: torch.device
) -> list[Result]:
    """Return what is computed of each part; on a CPU each in one of several threads."""

    def of_part(part: Part) -> Result:
        with torch.inference_mode():  # which is a thread's own
            return compute(part)

    if device.type != "cpu":
        return [of_part(part) for part in parts]
    with one_torch_thread():
        if len(parts) == 1:
            return [of_part(parts[0])]
        with ThreadPoolExecutor(min(len(parts), threads())) as pool:
            return [*pool.map(of_part, parts)]
