"""The eye of the report: a small convolutional network that tells a data set's ten classes apart, and from nothing.

Its figures compare images of one data set under one recipe; they are not those of an Inception network.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from scanline.model.config import ModelConfig

FEATURES = 64
CLASSES = 10
NOTHING = 10  # the label of an image that shows none of them
RECOGNISABLE = 0.9  # the least probability of the likeliest class at which an image counts as recognised


class Classifier(nn.Module):
    """Images [B, N] uint8 -> features [B, 64] and logits [B, 11], the last of nothing at all."""

    def __init__(self, height: int, width: int, channels: int) -> None:
        super().__init__()
        self.shape = (height, width, channels)
        self.body = nn.Sequential(
            nn.Conv2d(channels, 32, 3, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(4 * 64, FEATURES),
            nn.ReLU(),
        )
        self.head = nn.Linear(FEATURES, CLASSES + 1)

    @classmethod
    def of(cls, config: ModelConfig) -> "Classifier":
        """One for the images of a model."""
        return cls(config.height, config.width, config.channels)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = images.float().div(127.5).sub(1).view(-1, *self.shape)
        features = self.body(pixels.permute(0, 3, 1, 2))
        return features, self.head(features)


@dataclass(frozen=True)
class Looks:
    """What the classifier sees in n images."""

    features: np.ndarray  # [n, 64] float64
    classes: np.ndarray  # [n] int64, the likeliest of the ten
    confidence: np.ndarray  # [n] float64, its probability among the ten and nothing

    @property
    def recognised(self) -> np.ndarray:
        """[n] bool."""
        return self.confidence >= RECOGNISABLE

    @property
    def class_shares(self) -> list[float]:
        """Of all n images, in the order of the classes."""
        return (np.bincount(self.classes, minlength=CLASSES) / len(self.classes)).tolist()


@torch.inference_mode()
def look(
    classifier: Classifier, images: np.ndarray, batch: int = 500, progress: Callable[[int], None] = lambda done: None
) -> Looks:
    """The classifier's view of images [n, N] uint8."""
    classifier.eval()
    device = classifier.head.weight.device
    features, probabilities = [], []
    for start in range(0, len(images), batch):
        part = torch.tensor(images[start : start + batch]).to(device)
        seen, logits = classifier(part)
        features.append(seen.double().cpu())
        probabilities.append(logits.double().softmax(dim=1)[:, :CLASSES].cpu())
        progress(start + len(part))
    confidence, classes = torch.cat(probabilities).max(dim=1)
    return Looks(torch.cat(features).numpy(), classes.numpy(), confidence.numpy())
