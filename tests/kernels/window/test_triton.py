"""The window in Triton: the bits of the reference on a CPU; a GPU's torch divides with another
rounding.
"""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.window import wave_table
from scanline.kernels.window.triton import read_window
from tests.support.kernels.windows import WINDOWS

WIDTH = 5
PADDING = 2


@pytest.mark.parametrize("name", WINDOWS)
def test_inputs_are_those_of_the_reference_bit_for_bit(name):
    """An image at every pixel and one that is done, in slots of any order; one slot empty."""
    window = WINDOWS[name]
    pixels = window.height * window.width
    slots, images, position, places, table = there(
        torch.cat((torch.randperm(pixels + 1), torch.tensor([-1]))),
        torch.randint(0, 256, (pixels + 1, pixels * window.channels), dtype=torch.uint8),
        torch.arange(pixels + 1) * window.channels,
        torch.randn(pixels, WIDTH),
        wave_table(window.waves),
    )
    found = torch.full((len(slots), window.inputs + PADDING), 7.0, device=DEVICE)
    x = torch.full((len(slots), WIDTH), 7.0, device=DEVICE)
    active = torch.empty_like(slots)
    read_window(window, slots, images, position, table, places, found, x, active)
    expected = torch.full_like(found, 7.0)
    expected[:, : window.inputs] = 0
    expected_x = torch.zeros_like(x)
    live = (slots >= 0) & (slots < pixels)
    for row in live.nonzero().flatten().tolist():
        slot = int(slots[row])
        inputs, _ = window.read(images[slot : slot + 1].cpu(), torch.tensor([[slot]]))
        expected[row, : window.inputs] = inputs.flatten()
        expected_x[row] = places[slot]
    assert torch.equal(active, torch.where(live, slots, -1))
    assert torch.equal(expected, found)
    assert torch.equal(expected_x, x)
