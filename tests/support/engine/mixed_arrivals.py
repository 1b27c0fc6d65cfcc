"""Small models with classes for the CUDA backend, and images of every kind that arrive together."""

import torch

from scanline.model.backends.arrivals import Arrivals
from tests.support import small_models


def small_model(options):
    """A model with classes whose window is no wider than its image."""
    options = {**options, **small_models.CLASSES}
    if "window_columns" in options:
        options["window_columns"] = 2
    return small_models.model(small_models.config(**options))


def mixed_arrivals(config, count=5, *, pinned=False):
    """Images with labels, of which all bytes, each second or none are known, and in slots 3 and 4 a
    guided one.
    """
    arrivals = Arrivals.empty(count, config.bytes, pinned=pinned)
    arrivals.slots.copy_(torch.arange(count))
    arrivals.images[:3] = small_models.tensor(config, 3)
    arrivals.known[0] = True
    arrivals.known[1, 1::2] = True
    arrivals.label[:4] = torch.tensor([2, 0, 1, 3])
    arrivals.partner[3] = 1
    arrivals.partner[4] = -1
    arrivals.guidance.fill_(1)
    arrivals.guidance[3:5] = 2.5
    arrivals.temperature.fill_(1)
    arrivals.seed.fill_(2**40 + 1)
    arrivals.index.copy_(torch.arange(count))
    arrivals.index[4:] -= 1
    arrivals.position.fill_(config.first)
    return arrivals
