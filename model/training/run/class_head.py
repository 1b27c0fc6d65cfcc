"""Fits the class head of a trained model: multinomial logistic regression on its features of
training images, and of drawings as other people make them, too.

Weight decay and temperature are chosen on a part of these that is held out; the head is then fitted
to all of them.
"""

from collections.abc import Callable
from contextlib import nullcontext
from operator import itemgetter

import numpy as np
import torch
import torch.nn.functional as F

from scanline.model.base.resources import one_torch_thread
from scanline.model.datasets.split import Images
from scanline.model.images.cleaning import Cleaning
from scanline.model.likelihood.classification import views
from scanline.model.network.class_head import QUANTILES, ClassHead, FeatureShape
from scanline.model.network.class_reading import features as features_of
from scanline.model.network.class_reading import in_threads
from scanline.model.network.transformer import Transformer
from scanline.model.training.data.disturbed import redrawn, strangers
from scanline.model.training.optimise.precision import product_dtype

CELLS = 4
MEASURED = 1_000  # images that say whether they are drawings
DRAWINGS = 30_000  # at most, each read twice: half an hour of a core
HELD_OUT = 10  # of so many training images one
# of a mean loss in nats; each fit goes on from the one before
DECAYS = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
ITERATIONS = 60  # of L-BFGS, of each fit
# features of all images: products of fewer are over before another thread is awake
OF_SEVERAL_THREADS = 10_000_000
# images between two reports of progress; images of a product
AT_ONCE = 256
TOGETHER = 4
TEMPERATURES = [0.5 + step / 50 for step in range(126)]


def fit_class_head(
    model: Transformer,
    images: Images,
    labels: np.ndarray,
    most: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[ClassHead, float]:
    """Return a class head for a model, fitted to training images [n, N] uint8 with labels [n] int64
    of 1 to K, `most` of them at most, and the share of those held out that it reads rightly without
    them. A model of mirrored images sees mirrored ones too, one of grey drawings each once more as
    somebody else might have made it. progress: gets the number of images read."""
    config = model.config
    # 0: what the blocks make of a pixel's window; 1: the output of the first layer
    layer = 0 if config.blocks and not config.causal_conv else 1
    shape = FeatureShape((layer,), CELLS)
    fast = product_dtype(model.device) == torch.bfloat16

    def read(part: torch.Tensor) -> torch.Tensor:
        with torch.autocast(model.device.type, torch.bfloat16, enabled=fast):
            return features_of(model, part, shape)

    device = model.device
    random = torch.Generator().manual_seed(0)
    order = torch.randperm(len(images), generator=random).numpy()[:most]
    cleaning = None
    if config.channels == 1:
        cleaning = Cleaning.measure(images[order[:MEASURED]], config)
    if cleaning is not None:
        order = order[:DRAWINGS]
    draws = np.random.default_rng(0)
    # a GPU's host launches each product
    together = TOGETHER if device.type == "cpu" else AT_ONCE

    def read_all(pictures: np.ndarray) -> torch.Tensor:
        if not len(pictures):
            return torch.empty(0, shape.count(config), device=device)
        parts = torch.tensor(pictures, device=device).split(together)
        return torch.cat(in_threads(parts, read, device))

    kinds = 1 + config.mirrored + (cleaning is not None)
    count = len(order)
    features = torch.empty(kinds, count, shape.count(config), device=device)
    strange = []  # features of pictures that show no class
    others = np.random.default_rng(1)
    for start in range(0, count, AT_ONCE):
        stop = min(start + AT_ONCE, count)
        part = images[order[start:stop]]
        seen = [*views(config, part).swapaxes(0, 1)]
        if cleaning is not None:
            seen.append(redrawn(part, config, cleaning, draws))
            strange.append(read_all(strangers(part, config, cleaning, others)))
        for view, pictures in enumerate(seen):
            features[view, start:stop] = read_all(pictures)
        progress(stop)
    classes = torch.tensor(labels[order] - 1, device=device)
    of_strangers = torch.cat(strange) if strange else None
    return fit_to_features(shape, features, classes, len(config.classes), of_strangers)


def fit_to_features(
    shape: FeatureShape,
    features: torch.Tensor,  # [V, n, F] of n images in each view; standardised IN PLACE
    classes: torch.Tensor,  # [n]
    count: int,  # of all classes
    strange: torch.Tensor | None = None,  # [m, F] of pictures that show none; standardised IN PLACE
) -> tuple[ClassHead, float]:
    """Return the same from the features of images in any order."""
    mean = features[0].mean(dim=0)
    scale = features[0].std(dim=0, correction=0).clamp(min=1e-3)
    features.sub_(mean).div_(scale)
    if strange is not None:
        strange.sub_(mean).div_(scale)
    of_views = classes.expand(len(features), -1)
    held_out = len(classes) // HELD_OUT
    rest = slice(held_out, None)
    if not held_out:  # very few images are all fitted and tested
        held_out = len(classes)
    tested = features[:, :held_out].flatten(0, 1)
    expected = of_views[:, :held_out].flatten()

    def with_strange(own: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return features and classes in which those that show none have the one after the last."""
        if strange is None:
            return own, labels
        none = labels.new_full((len(strange),), count)
        return torch.cat((own, strange)), torch.cat((labels, none))

    fitted = with_strange(features[:, rest].flatten(0, 1), of_views[:, rest].flatten())

    # The decay whose fit to the others gives the held-out images the most probability, at its best
    # temperature.
    outputs = count + (strange is not None)
    matrix = torch.zeros(outputs, features.shape[2] + 1, device=features.device)
    tried = []
    for decay in DECAYS:
        matrix = _fit(matrix, *fitted, decay)
        logits = _logits(matrix[:count], tested)
        is_right = logits.argmax(dim=1) == expected
        right = float(is_right[:held_out].float().mean())  # as they are
        for temperature in TEMPERATURES:
            loss = float(F.cross_entropy(logits / temperature, expected))
            tried.append((loss, temperature, right, decay, matrix))
    _, temperature, right, decay, matrix = min(tried, key=itemgetter(0))

    quantiles = None
    if strange is not None:
        logits = _logits(matrix, tested)
        strangeness = logits[:, count] - logits[:, :count].logsumexp(dim=1)
        levels = torch.linspace(0, 1, QUANTILES, device=logits.device)
        quantiles = strangeness.quantile(levels)
    matrix = _fit(matrix, *with_strange(features.flatten(0, 1), of_views.flatten()), decay)
    head = ClassHead(
        shape=shape,
        matrix=matrix[:count, :-1].contiguous(),
        bias=matrix[:count, -1].contiguous(),
        mean=mean,
        scale=scale,
        temperature=torch.tensor(temperature, device=matrix.device),
        strange=None if strange is None else matrix[count],
        quantiles=quantiles,
    )
    return head, right


def _logits(matrix: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """Return the logits [n, K] of standardised features [n, F]; the last column of `matrix`
    [K, F + 1] is the bias."""
    return F.linear(features, matrix[:, :-1], matrix[:, -1])


def _fit(
    matrix: torch.Tensor,  # [K, F + 1]: from which the search begins
    features: torch.Tensor,  # [n, F]
    classes: torch.Tensor,  # [n]
    decay: float,
) -> torch.Tensor:
    """Return the matrix that fits features [n, F] and classes [n] best, from `matrix` on."""
    # contiguous, for products several times as fast
    weight = matrix[:, :-1].clone(memory_format=torch.contiguous_format).requires_grad_()
    bias = matrix[:, -1].clone().requires_grad_()
    search = torch.optim.LBFGS([weight, bias], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        search.zero_grad()
        penalty = decay / 2 * weight.square().sum()
        loss = F.cross_entropy(F.linear(features, weight, bias), classes) + penalty
        loss.backward()
        return loss

    is_small = features.numel() < OF_SEVERAL_THREADS
    in_one_thread = one_torch_thread() if is_small else nullcontext()
    with torch.inference_mode(False), torch.enable_grad(), in_one_thread:
        search.step(loss)
    return torch.cat((weight.detach(), bias.detach().unsqueeze(1)), dim=1)
