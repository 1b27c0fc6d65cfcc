"""Fits the class head of a trained model: multinomial logistic regression on its features of training images.

Weight decay and temperature are chosen on a part of these that is held out; the head is then fitted to all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from scanline.model.datasets.split import Images
from scanline.model.likelihood.classification import views
from scanline.model.network.class_head import ClassHead, FeatureShape, of_parts
from scanline.model.network.transformer import Transformer
from scanline.model.training.optimise.precision import product_dtype

CELLS = 4
HELD_OUT = 10  # of so many training images one
DECAYS = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)  # of a mean loss in nats; each fit goes on from the one before
ITERATIONS = 60  # of L-BFGS, of each fit
AT_ONCE, TOGETHER = 256, 4  # images between two reports of progress; images of a product
TEMPERATURES = torch.linspace(0.5, 3.0, 251)


@dataclass(frozen=True)
class FittedHead:
    """A class head, and how it was chosen."""

    head: ClassHead
    accuracy: float  # on the images that were held out, of the fit without them
    decay: float


def fit_class_head(
    model: Transformer,
    images: Images,
    labels: np.ndarray,
    most: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> FittedHead:
    """Return a class head for a model, fitted to training images [n, N] uint8 with labels [n] int64 of 1 to K, `most`
    of them at most, on the model's device. A model of mirrored images sees mirrored ones too. progress: gets the
    number of images read."""
    config = model.config
    shape = FeatureShape((0,) if config.blocks and not config.causal_conv else (1,), CELLS)

    def read(part: torch.Tensor) -> torch.Tensor:
        dtype = product_dtype(model.device)
        with torch.autocast(model.device.type, torch.bfloat16, enabled=dtype == torch.bfloat16):
            return model.features(part, shape)

    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0)).numpy()[:most]
    count = len(order) // HELD_OUT if len(order) >= HELD_OUT else 0
    # The features of each image, and then of its mirror image; the held-out ones come first.
    features = torch.empty(1 + config.mirrored, len(order), shape.count(config), device=model.device)
    for start in range(0, len(order), AT_ONCE):
        part = order[start : start + AT_ONCE]
        for view, seen in enumerate(views(config, images[part]).swapaxes(0, 1)):
            given = torch.tensor(seen, device=model.device)
            features[view, start : start + len(part)] = of_parts(given, TOGETHER, read)
        progress(start + len(part))
    mean, scale = features[0].mean(dim=0), features[0].std(dim=0, correction=0).clamp(min=1e-3)
    features.sub_(mean).div_(scale)
    classes = torch.tensor(labels[order] - 1, device=model.device).repeat(len(features), 1)
    # The decay whose fit to the others gives the held-out images the most probability, at its best temperature; of
    # very few images none is held out.
    held, held_classes = features[0, : count or None], classes[0, : count or None]
    matrix = torch.zeros(len(config.classes), shape.count(config) + 1, device=model.device)
    chosen = []
    for decay in DECAYS:
        matrix = _fit(matrix, features[:, count:].flatten(0, 1), classes[:, count:].flatten(), decay)
        logits = _logits(matrix, held)
        losses = torch.stack([F.cross_entropy(logits / t, held_classes) for t in TEMPERATURES.to(logits.device)])
        accuracy = float((logits.argmax(dim=1) == held_classes).float().mean())
        chosen.append((float(losses.min()), decay, TEMPERATURES[losses.argmin().cpu()], accuracy, matrix))
    _, decay, temperature, accuracy, matrix = min(chosen, key=lambda each: each[0])
    matrix = _fit(matrix, features.flatten(0, 1), classes.flatten(), decay)
    weights, bias = matrix[:, :-1].contiguous(), matrix[:, -1].contiguous()
    head = ClassHead(shape, weights, bias, mean, scale, temperature.to(model.device))
    return FittedHead(head, accuracy, decay)


def _logits(matrix: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """Return the logits [n, K] of standardised features [n, F]; the last column of `matrix` [K, F + 1] is the bias."""
    return F.linear(features, matrix[:, :-1], matrix[:, -1])


def _fit(matrix: torch.Tensor, features: torch.Tensor, classes: torch.Tensor, decay: float) -> torch.Tensor:
    """Return the matrix that fits features [n, F] and classes [n] best, from `matrix` on."""
    matrix = matrix.clone().requires_grad_()
    search = torch.optim.LBFGS([matrix], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        search.zero_grad()
        loss = F.cross_entropy(_logits(matrix, features), classes) + decay / 2 * matrix[:, :-1].square().sum()
        loss.backward()
        return loss

    with torch.inference_mode(False), torch.enable_grad():
        search.step(loss)
    return matrix.detach()
