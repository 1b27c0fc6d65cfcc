"""The window in Triton: the bits of the reference on a CPU; a GPU's
torch divides with another rounding.
"""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.window import Window, wave_table
from scanline.kernels.window.triton import read_window

GREY = Window(5, 4, 1, 2, 3, waves=3, wave_rows=1, wave_columns=2, outside=7)
COLOUR = Window(4, 6, 3, 1, 2, outside=255, centred=True)
BOTH = Window(3, 5, 3, 3, 1, waves=8, wave_rows=2, wave_columns=0, outside=128, centred=True)
LEFT = Window(1, 3, 1, 1, 1, waves=2, wave_columns=1, centred=True)
WINDOWS = pytest.mark.parametrize(
    "window", [GREY, COLOUR, BOTH, LEFT], ids=["grey", "colour", "both", "one row"]
)
WIDTH = 5
PADDING = 2


def inputs(window: Window) -> tuple[torch.Tensor, ...]:
    """slots, images, position and places: an image at every pixel, one done, in
    slots of any order; one slot empty.
    """
    pixels = window.height * window.width
    images = torch.randint(0, 256, (pixels + 1, pixels * window.channels), dtype=torch.uint8)
    slots = torch.cat((torch.randperm(pixels + 1), torch.tensor([-1])))
    return there(
        slots, images, torch.arange(pixels + 1) * window.channels, torch.randn(pixels, WIDTH)
    )


@WINDOWS
def test_inputs_are_those_of_the_reference_bit_for_bit(window: Window) -> None:
    slots, images, position, places = inputs(window)
    (table,) = there(wave_table(window.waves))
    found = torch.full((len(slots), window.inputs + PADDING), 7.0, device=DEVICE)
    x = torch.full((len(slots), WIDTH), 7.0, device=DEVICE)
    active = torch.empty_like(slots)
    read_window(window, slots, images, position, table, places, found, x, active)
    for i, slot in enumerate(slots.tolist()):
        live = 0 <= slot < len(places)
        assert active[i] == (slot if live else -1)
        pixel = torch.tensor([[slot if live else 0]])
        expected = torch.zeros(window.inputs)
        if live:
            expected = window.read(images[slot : slot + 1].cpu(), pixel)[0].flatten()
        assert torch.equal(expected.to(DEVICE), found[i, : window.inputs]), slot
        assert torch.equal(places[slot] if live else torch.zeros(WIDTH, device=DEVICE), x[i])
    assert (found[:, window.inputs :] == 7).all()


def test_rows_of_labels_are_added_bit_for_bit() -> None:
    slots, images, position, places = inputs(GREY)
    classes, labels = there(torch.randn(3, WIDTH), torch.arange(len(images)) % 3)
    found, x = (torch.empty(len(slots), width, device=DEVICE) for width in (GREY.inputs, WIDTH))
    active = torch.empty_like(slots)
    table = wave_table(3).to(DEVICE)
    read_window(
        GREY, slots, images, position, table, places, found, x, active, None, classes, labels
    )
    live = active >= 0
    assert torch.equal((places[active[live]] + classes[labels[active[live]]]), x[live])
    assert not x[~live].any()
    with pytest.raises(ValueError, match=r"labels \[20\] do not fit"):
        read_window(
            GREY,
            slots,
            images,
            position,
            table,
            places,
            found,
            x,
            active,
            None,
            classes,
            labels[1:],
        )


def test_sizes_that_do_not_fit_are_refused() -> None:
    slots, images, position, places = inputs(GREY)
    x = torch.empty(len(slots), WIDTH)
    active = torch.empty_like(slots)
    table = wave_table(3)
    out = torch.empty(len(slots), GREY.inputs)
    with pytest.raises(ValueError, match="do not fit 22 pixels of 59 inputs"):
        read_window(GREY, slots, images, position, table, places, out[:, 1:], x, active)
    with pytest.raises(ValueError, match=r"a table \[256, 4\] is not one of 3 waves"):
        read_window(GREY, slots, images, position, wave_table(2), places, out, x, active)
    with pytest.raises(ValueError, match=r"images \[21, 19\]"):
        read_window(
            GREY, slots, images[:, 1:].contiguous(), position, table, places, out, x, active
        )
