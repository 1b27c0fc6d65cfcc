"""Gathers of rows in Triton: of tables for a step, of a pass over known
bytes, and copies of whole slots.
"""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.triton import copy_slots as module
from scanline.kernels.triton import known_rows
from scanline.kernels.triton.copy_slots import copy_slots
from scanline.kernels.triton.embedding import embed
from scanline.kernels.triton.known_rows import write_rows
from tests.support.close import assert_close

LENGTH = 9
WIDTH = 6
START = 256  # the row of the table for the byte before the image


def inputs() -> tuple[torch.Tensor, ...]:
    """slots, images, position, values, places: one slot empty, one
    image done, one at its first byte.
    """
    images = torch.randint(0, 256, (5, LENGTH), dtype=torch.uint8)
    slots = torch.tensor([4, -1, 0, 2, 1])
    position = torch.tensor([0, 8, 9, 5, 2])
    return there(slots, images, position, torch.randn(START + 1, WIDTH), torch.randn(LENGTH, WIDTH))


@pytest.mark.parametrize("concat", [False, True])
def test_vectors_are_rows_of_tables(concat: bool) -> None:
    slots, images, position, values, places = inputs()
    position[4] = 0
    x = torch.full((5, WIDTH * (1 + concat)), 7.0, device=DEVICE)
    active = torch.empty_like(slots)
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
        wrong = (
            torch.zeros(rows, columns, device=DEVICE),
            torch.zeros(count, dtype=torch.int64, device=DEVICE),
        )
        with pytest.raises(
            ValueError, match=rf"classes \[{rows}, {columns}\] and labels \[{count}\] do not fit"
        ):
            embed(
                slots,
                images,
                position,
                values,
                places,
                x,
                active,
                classes=wrong[0],
                labels=wrong[1],
            )


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
        embed(
            slots,
            images,
            position,
            values,
            places,
            torch.empty(5, WIDTH + 1, device=DEVICE),
            active,
        )


# of a pass, and of an image
STEPS = 3
IMAGES = 4
BYTES = 18
POSITION = [0, 3, 15, 12]  # of each image, in bytes; the second is done, the last one is not there
STOPS = [18, 3, 18, 0]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("begin", [0, 3, 12])
def test_rows_are_those_of_torch(begin: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_rows, "ROWS", 8)  # more than one program
    images = torch.randint(0, 256, (IMAGES + 1, BYTES), dtype=torch.uint8)
    given = there(torch.tensor([begin]), torch.tensor(POSITION), torch.tensor(STOPS), images)
    slots, rows, at = torch.full((3, STEPS * IMAGES), 7, device=DEVICE)
    first, last = torch.full((2, IMAGES), 7, device=DEVICE)
    values = torch.full((STEPS * IMAGES, size), 7, dtype=torch.uint8, device=DEVICE)
    write_rows(*given, slots, rows, at, first, last, values)
    row = torch.arange(STEPS * IMAGES)
    image = row % IMAGES
    place = begin + row // IMAGES * size
    live = (place >= torch.tensor(POSITION)[image]) & (place < torch.tensor(STOPS)[image])
    assert live.any()
    assert torch.equal(at.cpu(), place)
    assert torch.equal(slots.cpu(), torch.where(live, image, -1))
    assert torch.equal(rows.cpu(), torch.where(live, row, -1))
    for found, byte in ((first, POSITION), (last, STOPS)):
        assert torch.equal(found.cpu(), ((torch.tensor(byte) - begin) // size).clamp(0, STEPS))
    for i, own in enumerate(values.cpu()):
        start = int(place[i])
        assert torch.equal(
            own, images[image[i], start : start + size] if live[i] else torch.zeros_like(own)
        )


# Seven slots; of those chosen, 4 and 0 become slot 2, and 5 becomes
# slot 6. Slots 1 and 3 are not chosen.
SOURCES = [2, 2, 2, 6, 6]
TARGETS = [2, 4, 0, 6, 5]
AFTER = [2, 1, 2, 3, 2, 6, 6]  # which slot each of the seven holds then


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.float64, torch.uint8], ids=str
)
@pytest.mark.parametrize("shape", [(7,), (7, 1), (7, 20), (7, 3, 8, 6)], ids=str)
def test_targets_become_sources(
    dtype: torch.dtype, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NUMBERS", 64)  # more than one program for a slot of 144 numbers
    sources, targets, array = there(
        torch.tensor(SOURCES), torch.tensor(TARGETS), _numbers(dtype, *shape)
    )
    expected = array[AFTER]
    copy_slots(array, sources, targets)
    assert torch.equal(expected.view(torch.uint8), array.view(torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_all_layers_of_a_state_are_copied(dtype: torch.dtype) -> None:
    sources, targets, array = there(
        torch.tensor(SOURCES), torch.tensor(TARGETS), _numbers(dtype, 3, 7, 2, 5)
    )
    expected = array[:, AFTER]
    copy_slots(array, sources, targets, layered=True)
    assert torch.equal(expected, array)


def test_what_is_no_number_is_copied_as_it_is() -> None:
    sources, targets = there(torch.tensor([1, 1]), torch.tensor([0, 1]))
    words = torch.tensor([[1], [0x7FC12345]], dtype=torch.int32, device=DEVICE)
    copy_slots(words.view(torch.float32), sources, targets)
    assert words.tolist() == [[0x7FC12345], [0x7FC12345]]


def test_slots_that_do_not_fit_are_refused_and_no_numbers_launch_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_copy_slots", None)
    copy_slots(torch.zeros(0, 3, 4), torch.arange(3), torch.arange(3), layered=True)
    with pytest.raises(ValueError, match=r"sources \[2\] and targets \[3\] do not fit"):
        copy_slots(torch.zeros(4, 2), torch.arange(2), torch.arange(3))


def _numbers(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return (torch.randn(*shape) * 100).abs().to(dtype)
