"""The class head: which class an image shows, from one reading of it without a class.

What the residual blocks or the first layers compute is averaged over cells of the image and
standardised; one matrix makes logits of it. The head is no part of the network: no painted byte
and no digest depends on it. class_reading.py runs the network for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor

from scanline.model.base.config import ModelConfig

QUANTILES = 1_000


@dataclass(frozen=True)
class FeatureShape:
    """Which features an image has: of the network's outputs after each of `layers` (0: after the
    residual blocks) the means over `cells` x `cells` cells."""

    layers: tuple[int, ...]
    cells: int

    def count(self, config: ModelConfig) -> int:
        """Return F, the number of features."""
        return len(self.layers) * self.cells**2 * config.model_width

    def averages(self, config: ModelConfig, outputs: Sequence[Tensor], start: int) -> Tensor:
        """Return what n steps from byte `start` on add to the features [B, F] of images, from the
        outputs [B, n, D] after 0, 1 and more layers."""
        # The cell of each step of an image.
        pixel = torch.arange(config.first, config.bytes, config.step_bytes) // config.channels
        row = (pixel // config.width) * self.cells // config.height
        column = (pixel % config.width) * self.cells // config.width
        cell = row * self.cells + column
        cells = self.cells**2

        # Each step counts in its cell, by one over the steps of that cell in the whole image.
        first = (start - config.first) // config.step_bytes
        steps = outputs[0].shape[1]
        inside = F.one_hot(cell[first : first + steps], cells).T.float()  # [cells, n]
        # an image may have fewer rows than cells
        count = torch.bincount(cell, minlength=cells).clamp(min=1)
        weights = (inside / count.unsqueeze(1)).to(outputs[0].device)

        means = [weights @ outputs[layer].float() for layer in self.layers]  # each [B, cells, D]
        return torch.cat([mean.flatten(1) for mean in means], dim=1)


@dataclass(frozen=True)
class ClassHead:
    """The weights of a head for K classes, float32."""

    shape: FeatureShape
    matrix: Tensor  # [K, F]
    bias: Tensor  # [K]
    mean: Tensor  # [F], of the features
    scale: Tensor  # [F], by which they are divided after that
    # [], by which the logits are divided: then their probabilities are calibrated
    temperature: Tensor
    # Of drawings. [F + 1]: weights and bias of the logit that an image shows none of the classes
    strange: Tensor | None = None
    quantiles: Tensor | None = None  # [Q], ascending, of the strangeness of drawings of the classes

    @classmethod
    def empty(
        cls, shape: FeatureShape, config: ModelConfig, is_of_drawings: bool = False
    ) -> "ClassHead":
        """Return a head of zeros."""
        classes = len(config.classes)
        features = shape.count(config)
        return cls(
            shape=shape,
            matrix=torch.zeros(classes, features),
            bias=torch.zeros(classes),
            mean=torch.zeros(features),
            scale=torch.zeros(features),
            temperature=torch.zeros(()),
            strange=torch.zeros(features + 1) if is_of_drawings else None,
            quantiles=torch.zeros(QUANTILES) if is_of_drawings else None,
        )

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The weights by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def to(self, device: torch.device) -> "ClassHead":
        """Return the head on a device."""
        moved = {name: tensor.to(device) for name, tensor in self.tensors.items()}
        return ClassHead(self.shape, **moved)

    def logits(self, features: Tensor) -> Tensor:
        """Return the logits [..., K] of features [..., F]."""
        return self.answer(features)[..., :-1]

    def answer(self, features: Tensor) -> Tensor:
        """Return the logits of features [..., F], and last the share of drawings of the classes that
        are at least as strange, -1 where that was not measured: [..., K + 1]."""
        standard = (features - self.mean) / self.scale
        logits = F.linear(standard, self.matrix, self.bias)
        usual = torch.full_like(logits[..., :1], -1)
        if self.strange is not None and self.quantiles is not None:
            none = F.linear(standard, self.strange[None, :-1], self.strange[-1:])
            strangeness = none - logits.logsumexp(dim=-1, keepdim=True)
            rank = torch.searchsorted(self.quantiles, strangeness)
            usual = 1 - rank / len(self.quantiles)
        return torch.cat((logits / self.temperature, usual), dim=-1)
