"""python -m tests.support.training.compiled_loss PRESET: fails unless the compiled loss of a
preset's model, of a few pixels, has the value and the gradients of the loss as it is written. A
process of its own, since torch reads the instruction set once.
"""

import sys
from dataclasses import replace

import torch

from scanline.model.training.optimise.loss import compile_loss, loss_of
from scanline.model.training.presets import PRESETS
from tests.support import small_models
from tests.support.close import assert_close


def check(preset):
    """Compare them for two images of 7 x 9 pixels and a single layer."""
    config = replace(
        PRESETS[preset].model,
        height=7,
        width=9,
        layers=1,
        blocks=1,
    )
    model = small_models.model(config).requires_grad_(True)
    batch = torch.from_numpy(small_models.images(config, 2))
    found = []
    for loss in (loss_of, compile_loss(batch.device)):
        value = loss(model, batch, torch.float32)
        gradients = torch.autograd.grad(value, list(model.parameters()))
        found.append(torch.cat([value.view(1), *(gradient.flatten() for gradient in gradients)]))
    assert_close(f"loss and gradients of {preset}", *found, bound=1e-3)


if __name__ == "__main__":
    torch.set_num_threads(1)
    check(sys.argv[1])
