"""The activations of feed-forward networks, by the names that config.json has for them."""

from collections.abc import Callable

import torch
import torch.nn.functional as F

Activation = Callable[[torch.Tensor], torch.Tensor]
ACTIVATIONS: dict[str, Activation] = {"relu": F.relu, "gelu": F.gelu}
