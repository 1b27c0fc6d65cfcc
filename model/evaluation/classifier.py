"""The report's classifier: a small convolutional network for the K classes of a data set, and "no
image".

Its features and confidences compare images of one data set; they are not those of an Inception
network. Training takes one to three minutes of one CPU core and is deterministic on one machine.
RECIPE numbers everything in this file that changes the trained weights: raise it with any such
change, and cached classifiers of the old recipe are not used.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

RECIPE = 2
FEATURES = 64
RECOGNISABLE = 0.9  # an image counts as recognised from this probability of its most likely class
EPOCHS = {"mnist": 2, "cifar10": 5}
OTHER_EPOCHS = 5
MIRRORED = ("cifar10",)
BATCH = 100
IMAGES_PER_NEGATIVE = 5
# the rate rises linearly up to a fifth of all updates, then falls linearly to zero
PEAK_RATE = 4e-3
PEAK_AT = 0.2
TILE_SIDES = (1, 2, 4)  # pixels; those that divide the sides of the images


class Classifier(nn.Module):
    """Maps images [B, N] uint8 to features [B, 64] and logits [B, K + 1], the last of which is "no
    image"."""

    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.classes = classes
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
        self.head = nn.Linear(FEATURES, classes + 1)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scaled = images.float().div(127.5).sub(1)  # to -1 .. 1
        features = self.body(scaled.view(-1, *self.shape).permute(0, 3, 1, 2))
        return features, self.head(features)


@dataclass(frozen=True)
class Predictions:
    """The classifier's output for n images."""

    features: np.ndarray  # [n, 64] float64
    classes: np.ndarray  # [n] int64, the most likely of the K
    confidence: np.ndarray  # [n] float64, its probability among these and "no image"

    @property
    def recognised(self) -> np.ndarray:
        """Which images are recognised, [n] bool."""
        return self.confidence >= RECOGNISABLE

    def class_shares(self, count: int) -> list[float]:
        """Return the share of each of `count` classes among all n images, recognised or not."""
        return (np.bincount(self.classes, minlength=count) / len(self.classes)).tolist()


def joined(parts: Sequence[Predictions]) -> Predictions:
    """Return the predictions for the images of all parts, one after the other."""
    return Predictions(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.classes for part in parts]),
        np.concatenate([part.confidence for part in parts]),
    )


@torch.inference_mode()
def classify(
    classifier: Classifier,
    images: np.ndarray,
    batch: int = 500,
    progress: Callable[[int], None] = lambda done: None,
) -> Predictions:
    """Return the predictions for images [n, N] uint8; `progress` gets the number of images done."""
    classifier.eval()
    device = classifier.head.weight.device
    features = []
    probabilities = []
    for start in range(0, len(images), batch):
        part = torch.tensor(images[start : start + batch]).to(device)
        features_of_part, logits = classifier(part)
        features.append(features_of_part.double().cpu())
        probabilities.append(logits.double().softmax(dim=1)[:, :-1].cpu())
        progress(start + len(part))
    confidence, classes = torch.cat(probabilities).max(dim=1)
    return Predictions(torch.cat(features).numpy(), classes.numpy(), confidence.numpy())


def update_count(dataset: str, images: int) -> int:
    """Return how many updates a training on so many images takes."""
    return EPOCHS.get(dataset, OTHER_EPOCHS) * -(-images // BATCH)


def train_classifier(
    dataset: str,
    shape: tuple[int, int, int],
    images: np.ndarray,
    labels: np.ndarray,
    classes: int,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] = lambda updates_done: None,
) -> Classifier:
    """Return a classifier trained on images [n, N] uint8 of `shape` (height, width, channels) and
    labels [n] below `classes`.

    Neither the images nor torch's random numbers are changed.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        classifier = Classifier(*shape, classes).to(device).train()
    rng = np.random.default_rng(seed)
    optimiser = torch.optim.AdamW(classifier.parameters(), lr=PEAK_RATE, weight_decay=0.01)
    total = update_count(dataset, len(images))
    done = 0
    for _ in range(EPOCHS.get(dataset, OTHER_EPOCHS)):
        order = rng.permutation(len(images))
        for start in range(0, len(order), BATCH):
            share = done / total
            rising = (share + 1 / total) / PEAK_AT
            falling = (1 - share) / (1 - PEAK_AT)
            for group in optimiser.param_groups:
                group["lr"] = PEAK_RATE * min(rising, falling)
            chosen = order[start : start + BATCH]
            batch = images[chosen].reshape(-1, *shape)
            if dataset in MIRRORED:
                mirrored = rng.random(len(batch)) < 0.5
                batch[mirrored] = batch[mirrored, :, ::-1]
            # Without examples of no image the network would be certain of a class on noise.
            noise = negatives(batch[: len(batch) // IMAGES_PER_NEGATIVE + 1], rng)
            of_noise = np.full(len(noise), classes, labels.dtype)
            targets = np.concatenate((labels[chosen], of_noise))
            examples = torch.from_numpy(np.concatenate((batch, noise))).to(device)
            _, logits = classifier(examples.flatten(1))
            loss = F.cross_entropy(logits, torch.from_numpy(targets).long().to(device))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            done += 1
            progress(done)
    return classifier.eval().requires_grad_(False)


def negatives(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return one image of nothing for each image [n, H, W, C] uint8: its tiles shuffled, or tiles
    of random colours."""
    return np.stack([_tiled(image, rng) for image in images])


def _tiled(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    height, width, channels = image.shape
    sides = [side for side in TILE_SIDES if height % side == 0 and width % side == 0]
    down, across = rng.choice(sides, 2)
    rows = height // down
    columns = width // across
    grid = image.reshape(rows, down, columns, across, channels).swapaxes(1, 2)
    tiles = grid.reshape(-1, down, across, channels)
    if rng.random() < 0.5:
        tiles = tiles[rng.permutation(len(tiles))]
    else:
        colours = rng.integers(0, 256, (len(tiles), 1, 1, channels), np.uint8)
        tiles = np.broadcast_to(colours, tiles.shape)
    grid = tiles.reshape(rows, columns, down, across, channels).swapaxes(1, 2)
    mixed: np.ndarray = grid.reshape(image.shape)
    return mixed
