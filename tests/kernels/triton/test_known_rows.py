"""Rows of a pass over known bytes in Triton: those of torch's indexing, wherever the pass begins."""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.triton import known_rows
from scanline.kernels.triton.known_rows import write_rows

STEPS, IMAGES = 3, 4  # of a pass
LENGTH = 18  # bytes
POSITION = [0, 3, 15, 12]  # of each image, in bytes; the second is done, the last one is not there
STOPS = [18, 3, 18, 0]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("begin", [0, 3, 12])
def test_rows_are_those_of_torch(begin: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_rows, "ROWS", 8)  # more than one program
    images = torch.randint(0, 256, (IMAGES + 1, LENGTH), dtype=torch.uint8)
    given = there(torch.tensor([begin]), torch.tensor(POSITION), torch.tensor(STOPS), images)
    slots, rows, at = torch.full((3, STEPS * IMAGES), 7, device=DEVICE)
    first, last = torch.full((2, IMAGES), 7, device=DEVICE)
    values = torch.full((STEPS * IMAGES, size), 7, dtype=torch.uint8, device=DEVICE)
    write_rows(*given, slots, rows, at, first, last, values)

    row = torch.arange(STEPS * IMAGES)
    image, place = row % IMAGES, begin + row // IMAGES * size
    live = (place >= torch.tensor(POSITION)[image]) & (place < torch.tensor(STOPS)[image])
    assert live.any()
    assert torch.equal(at.cpu(), place)
    assert torch.equal(slots.cpu(), torch.where(live, image, -1))
    assert torch.equal(rows.cpu(), torch.where(live, row, -1))
    for found, byte in ((first, POSITION), (last, STOPS)):
        assert torch.equal(found.cpu(), ((torch.tensor(byte) - begin) // size).clamp(0, STEPS))
    for i, own in enumerate(values.cpu()):
        start = int(place[i])
        assert torch.equal(own, images[image[i], start : start + size] if live[i] else torch.zeros_like(own))
