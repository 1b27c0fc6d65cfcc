"""How the classifier is trained: a minute or two of one CPU core, deterministic on one machine by its seed.

RECIPE names what is done here and in classifier.py; whoever changes either raises it, and cached ones are not used.
"""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from model.quality.classifier import Classifier

RECIPE = 1
EPOCHS = {"mnist": 2, "cifar10": 5}
MIRRORED = {"mnist": False, "cifar10": True}
BATCH = 100
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
            batch = images[chosen]
            if MIRRORED[dataset]:
                mirrored = rng.random(len(batch)) < 0.5
                pixels = batch.reshape(-1, *shape)
                pixels[mirrored] = pixels[mirrored, :, ::-1]
            _, logits = classifier(torch.from_numpy(batch).to(device))
            loss = F.cross_entropy(logits, torch.from_numpy(labels[chosen]).long().to(device))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            done += 1
            progress(done)
    return classifier.eval().requires_grad_(False)
