"""How the classifier is trained: one to three minutes of one CPU core, deterministic on one machine by its seed.

RECIPE names what is done here and in classifier.py; whoever changes either raises it, and cached ones are not used.
"""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from scanline.model.evaluation.classifier import NOTHING, Classifier
from scanline.model.evaluation.negatives import nonsense

RECIPE = 2
EPOCHS = {"mnist": 2, "cifar10": 5}
MIRRORED = {"mnist": False, "cifar10": True}
BATCH, NOTHING_IN = 100, 5  # images an update, and one of nothing for so many of them
PEAK_RATE, PEAK_AT = 4e-3, 0.2  # the rate rises in a line to its peak at a fifth of all updates, then falls to zero


def updates(dataset: str, images: int) -> int:
    """Of a whole training."""
    return EPOCHS[dataset] * -(-images // BATCH)


def teach(
    dataset: str,
    shape: tuple[int, int, int],
    images: np.ndarray,
    labels: np.ndarray,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Callable[[int], None] = lambda updates_done: None,
) -> Classifier:
    """A classifier trained on images [n, N] uint8 of `shape` (height, width, channels) and labels [n] uint8."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        classifier = Classifier(*shape).to(device).train()
    rng = np.random.default_rng(seed)
    optimiser = torch.optim.AdamW(classifier.parameters(), lr=PEAK_RATE, weight_decay=0.01)
    total = updates(dataset, len(images))
    done = 0
    for _ in range(EPOCHS[dataset]):
        order = rng.permutation(len(images))
        for start in range(0, len(order), BATCH):
            share = done / total
            for group in optimiser.param_groups:
                group["lr"] = PEAK_RATE * min((share + 1 / total) / PEAK_AT, (1 - share) / (1 - PEAK_AT))
            chosen = order[start : start + BATCH]
            batch = images[chosen].reshape(-1, *shape)
            if MIRRORED[dataset]:
                mirrored = rng.random(len(batch)) < 0.5
                batch[mirrored] = batch[mirrored, :, ::-1]
            nothing = nonsense(batch[: len(batch) // NOTHING_IN + 1], rng)
            wanted = np.concatenate((labels[chosen], np.full(len(nothing), NOTHING, labels.dtype)))
            _, logits = classifier(torch.from_numpy(np.concatenate((batch, nothing))).to(device).flatten(1))
            loss = F.cross_entropy(logits, torch.from_numpy(wanted).long().to(device))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            done += 1
            progress(done)
    return classifier.eval().requires_grad_(False)
