"""Gathers of rows in Triton: of tables for a step, of a pass over known bytes, and copies of whole
slots.
"""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.triton import copy_slots as module
from scanline.kernels.triton import known_rows
from scanline.kernels.triton.copy_slots import copy_slots
from scanline.kernels.triton.embedding import embed
from scanline.kernels.triton.known_rows import write_rows
from scanline.kernels.triton.moments import blocks, row_moments
from tests.support.close import assert_close

LENGTH = 9
WIDTH = 70  # more than one block of moments
START = 256  # the row of the table for the byte before the image


@pytest.mark.parametrize("concat", [False, True])
def test_vectors_are_rows_of_tables_with_their_moments(concat):
    """One slot empty, one image done, two at their first byte."""
    slots, images, position, values, places = there(
        torch.tensor([4, -1, 0, 2, 1]),
        torch.randint(0, 256, (5, LENGTH), dtype=torch.uint8),
        torch.tensor([0, 8, 9, 5, 0]),
        torch.randn(START + 1, WIDTH),
        torch.randn(LENGTH, WIDTH),
    )
    x = torch.full((5, WIDTH * (1 + concat)), 7.0, device=DEVICE)
    moments = torch.full((5, blocks(x.shape[1]), 2), 7.0, device=DEVICE)
    active = torch.empty_like(slots)
    embed(
        slots,
        images,
        position,
        values,
        places,
        x,
        active,
        moments=moments,
    )
    assert active.tolist() == [4, -1, 0, -1, 1]
    expected = torch.zeros_like(x)
    for row, slot in enumerate(active.tolist()):
        if slot >= 0:
            place = int(position[slot])
            value = values[int(images[slot, place - 1]) if place else START]
            expected[row] = torch.cat((value, places[place])) if concat else value + places[place]
    assert_close("x", expected, x)
    assert torch.equal(row_moments(x), moments)


# of a pass, and of an image
STEPS = 3
IMAGES = 4
BYTES = 18
POSITION = torch.tensor([0, 3, 15, 12])  # of each image, in bytes; the second is done
STOPS = torch.tensor([18, 3, 18, 0])  # the last one is not there


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("begin", [0, 3, 12])
def test_rows_are_those_of_torch(begin, size, monkeypatch):
    monkeypatch.setattr(known_rows, "ROWS", 8)  # more than one program
    images = torch.randint(0, 256, (IMAGES + 1, BYTES), dtype=torch.uint8)
    given = there(torch.tensor([begin]), POSITION, STOPS, images)
    slots, rows, at = torch.full((3, STEPS * IMAGES), 7, device=DEVICE)
    first, last = torch.full((2, IMAGES), 7, device=DEVICE)
    values = torch.full((STEPS * IMAGES, size), 7, dtype=torch.uint8, device=DEVICE)
    write_rows(
        *given,
        slots,
        rows,
        at,
        first,
        last,
        values,
    )
    row = torch.arange(STEPS * IMAGES)
    image = row % IMAGES
    place = begin + row // IMAGES * size
    live = (place >= POSITION[image]) & (place < STOPS[image])
    assert live.any()
    assert torch.equal(at.cpu(), place)
    assert torch.equal(slots.cpu(), torch.where(live, image, -1))
    assert torch.equal(rows.cpu(), torch.where(live, row, -1))
    assert torch.equal(first.cpu(), ((POSITION - begin) // size).clamp(0, STEPS))
    assert torch.equal(last.cpu(), ((STOPS - begin) // size).clamp(0, STEPS))
    for number, found in enumerate(values.cpu()):
        start = int(place[number])
        read = images[image[number], start : start + size]
        assert torch.equal(found, read if live[number] else torch.zeros_like(found))


# Of seven slots, 4 and 0 become slot 2, and 5 becomes slot 6. Slots 1 and 3 are not chosen.
SOURCES = torch.tensor([2, 2, 2, 6, 6])
TARGETS = torch.tensor([2, 4, 0, 6, 5])
AFTER = [2, 1, 2, 3, 2, 6, 6]  # which slot each of the seven holds then


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.float64, torch.uint8], ids=str
)
@pytest.mark.parametrize(
    "shape",
    [
        (7,),
        (7, 1),
        (7, 20),
        (7, 3, 8, 6),
    ],
    ids=str,
)
def test_targets_become_sources(dtype, shape, monkeypatch):
    monkeypatch.setattr(module, "NUMBERS", 64)  # more than one program for a slot of 144 numbers
    numbers = torch.randint(0, 100, shape).to(dtype)
    sources, targets, array = there(SOURCES, TARGETS, numbers)
    expected = array[AFTER]
    copy_slots(array, sources, targets)
    assert torch.equal(expected, array)


def test_all_layers_of_a_state_are_copied():
    sources, targets, array = there(SOURCES, TARGETS, torch.randn(3, 7, 2, 5).half())
    expected = array[:, AFTER]
    copy_slots(array, sources, targets, layered=True)
    assert torch.equal(expected, array)
