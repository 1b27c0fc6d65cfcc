"""The gather at the start of a byte's step: the right rows of the tables, and which images are active."""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.triton.embedding import embed
from tests.support.close import assert_close

LENGTH, WIDTH = 9, 6
START = 256  # the row of the table for the byte before the image


def inputs() -> tuple[torch.Tensor, ...]:
    """slots, images, position, values, places: one slot empty, one image done, one at its first byte."""
    images = torch.randint(0, 256, (5, LENGTH), dtype=torch.uint8)
    slots, position = torch.tensor([4, -1, 0, 2, 1]), torch.tensor([0, 8, 9, 5, 2])
    return there(slots, images, position, torch.randn(START + 1, WIDTH), torch.randn(LENGTH, WIDTH))


@pytest.mark.parametrize("concat", [False, True])
def test_vectors_are_rows_of_tables(concat: bool) -> None:
    slots, images, position, values, places = inputs()
    position[4] = 0
    x, active = torch.full((5, WIDTH * (1 + concat)), 7.0, device=DEVICE), torch.empty_like(slots)
    embed(slots, images, position, values, places, x, active)
    assert active.tolist() == [4, -1, 0, -1, 1]
    expected = torch.zeros_like(x)
    for i, slot in enumerate(active.tolist()):
        if slot >= 0:
            place = int(position[slot])
            value = values[int(images[slot, place - 1]) if place else START]
            expected[i] = torch.cat((value, places[place])) if concat else value + places[place]
    assert_close("x", expected, x)


@pytest.mark.parametrize("concat", [False, True])
def test_rows_of_labels_are_added_bit_for_bit(concat: bool) -> None:
    slots, images, position, values, places = inputs()
    classes, labels = there(torch.randn(4, WIDTH * (1 + concat)), torch.tensor([3, 0, 1, 1, 2]))
    x, labelled = (torch.empty(5, WIDTH * (1 + concat), device=DEVICE) for _ in range(2))
    active = torch.empty_like(slots)
    embed(slots, images, position, values, places, x, active)
    embed(slots, images, position, values, places, labelled, active, classes=classes, labels=labels)
    live = active >= 0
    assert torch.equal(x[live] + classes[labels[active[live]]], labelled[live])
    assert not labelled[~live].any()
    for rows, columns, count in ((4, WIDTH * (1 + concat) + 1, 5), (4, WIDTH * (1 + concat), 4)):
        wrong = torch.zeros(rows, columns, device=DEVICE), torch.zeros(count, dtype=torch.int64, device=DEVICE)
        with pytest.raises(ValueError, match=rf"classes \[{rows}, {columns}\] and labels \[{count}\] do not fit"):
            embed(slots, images, position, values, places, x, active, classes=wrong[0], labels=wrong[1])


def test_places_may_begin_after_the_first_byte_and_other_shapes_are_refused() -> None:
    slots, images, position, values, places = inputs()
    position[0] = 1  # no image is at byte 0, which has no place below
    x, later = (torch.empty(5, WIDTH, device=DEVICE) for _ in range(2))
    active = torch.empty_like(slots)
    embed(slots, images, position, values, places, x, active)
    embed(slots, images, position, values, places[1:].contiguous(), later, active)
    live = active >= 0
    assert live.sum() == 3
    assert torch.equal(x[live], later[live])
    with pytest.raises(ValueError, match="do not fit"):
        embed(slots, images, position, values, places, torch.empty(5, WIDTH + 1, device=DEVICE), active)
