"""Plans of passes that paint ahead, and what is kept of them, in Triton and as the reference."""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.ahead import reference, triton
from scanline.kernels.ahead.reference import Images, Plan

INK = 7
WIDTH = 5
HEIGHT = 4
SLOTS = 9
# Two guided images, three others, one that is done, none, one with a code.
CHOSEN = [4, 5, 1, 2, 0, 6, 3, -1, 7]
BATCH = len(CHOSEN)


def some_images(size):
    """Images of flat and noisy pixels, some of them known, with what earlier passes drew."""
    count = WIDTH * HEIGHT * size
    flat_or_not = torch.randint(0, 2, (SLOTS, 1))
    images = torch.randint(0, 2, (SLOTS, count)) * flat_or_not * INK
    drawn = torch.randint(0, 2, (SLOTS, count)) * INK
    known = torch.rand(SLOTS, count) < 0.3
    for array in (images, drawn, known):
        array[5] = array[4]
        array[2] = array[1]
    position = torch.tensor([0, 6, 6, 20, 3, 3, 11, 9, 1])
    drawn_to = position + torch.tensor([3, 2, 2, 0, 0, 0, 2, 1, 0])
    code_range = torch.zeros(SLOTS, dtype=torch.int64)
    code_range[7] = 1 << 31
    arrays = Images(
        images=images.to(torch.uint8),
        known=known,
        position=size * position,
        bits=torch.rand(SLOTS, dtype=torch.float64),
        known_bits=torch.rand(SLOTS, dtype=torch.float64),
        partner=torch.tensor([0, 1, -1, 0, 1, -1, 0, 0, 0]),
        code_range=code_range,
        drawn=drawn.to(torch.uint8),
        drawn_to=size * drawn_to,
    )
    return Images(*there(*vars(arrays).values()))


def copied(arrays):
    """A dataclass with copies of its arrays."""
    return type(arrays)(*there(*vars(arrays).values()))


def assert_equal(expected, found):
    for name, array in vars(expected).items():
        other = getattr(found, name)
        assert torch.equal(array.nan_to_num(-1), other.nan_to_num(-1)), name


def let_some_differ(plan, images):
    """Draw in some rows another byte than the guess, in both slots of a guided image."""
    size = plan.guesses.shape[2]
    for slot, at in zip(plan.row_slots.tolist(), plan.at.tolist(), strict=True):
        is_drawn = torch.rand(()) < 0.3
        if slot < 0 or not is_drawn:
            continue
        step = slice(at, at + size)
        partner = slot + int(images.partner[slot])
        unknown = ~images.known[slot, step]
        images.images[slot, step] ^= INK * unknown
        images.images[partner, step] = images.images[slot, step]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("rows", "widest"), [(BATCH, 1), (BATCH + 8, 4), (BATCH * WIDTH, WIDTH)])
@pytest.mark.parametrize("size", [1, 3])
def test_passes_are_those_of_the_reference(size, rows, widest, full, monkeypatch):
    """Two passes, the second from what the first has left, with draws that are often as guessed."""
    monkeypatch.setattr(triton, "IMAGES", 4)  # more than one program
    expected = some_images(size)
    found = copied(expected)
    law = Plan.of(BATCH, rows, widest, size, DEVICE)
    law.slots.copy_(torch.tensor(CHOSEN))
    law.stops.fill_(WIDTH * HEIGHT * size)
    law.stops[:2] = 8 * size
    ours = copied(law)
    totals, our_totals = there(*torch.zeros(2, 4, dtype=torch.int64))
    for _ in range(2):
        reference.plan(law, expected, WIDTH, full)
        triton.plan(ours, found, WIDTH, full)
        step = torch.arange(widest, device=DEVICE)
        is_read = step + 1 < law.count[:, None]
        for guesses in (law.guesses, ours.guesses):
            guesses.mul_(is_read[..., None])
        assert_equal(law, ours)
        assert_equal(expected, found)
        assert int(law.count.sum()) <= rows
        let_some_differ(law, expected)
        found.images.copy_(expected.images)
        costs, row_bits = there(
            torch.rand(rows, size, dtype=torch.float64),
            torch.rand(rows, dtype=torch.float64),
        )
        row_bits[row_bits < 0.1] = float("nan")
        reference.accept(law, expected, costs, row_bits, totals)
        triton.accept(ours, found, costs, row_bits, our_totals)
        assert_equal(law, ours)
        assert_equal(expected, found)
        assert torch.equal(totals, our_totals)
    assert totals[2] >= totals[0] > 0


def test_a_flat_pass_ends_where_neighbours_differ_and_a_full_one_does_not():
    images = some_images(1)
    images.images.zero_()
    images.known.zero_()
    images.images[0, 1] = INK
    images.position[0] = WIDTH
    images.drawn_to[0] = WIDTH + 2
    images.drawn[0, WIDTH : WIDTH + 2] = torch.tensor([3, 4])
    chosen = Plan.of(1, WIDTH, WIDTH, 1, DEVICE)
    chosen.slots.zero_()
    chosen.stops.fill_(WIDTH * HEIGHT)
    triton.plan(chosen, images, WIDTH, full=False)
    assert chosen.count.tolist() == [1]
    triton.plan(chosen, images, WIDTH, full=True)
    assert chosen.count.tolist() == [WIDTH]
    # drawn before, drawn before, left
    assert chosen.guesses[0, :3, 0].tolist() == [3, 4, 4]


def test_no_step_begins_at_a_stop_and_more_steps_than_columns_are_refused():
    images = some_images(1)
    chosen = Plan.of(2, 2 * WIDTH, WIDTH, 1, DEVICE)
    chosen.slots.copy_(torch.tensor([0, 6]))
    chosen.stops.copy_(torch.tensor([2, 11]))
    triton.plan(chosen, images, WIDTH, full=True)
    assert chosen.count.tolist() == [2, 0]
    with pytest.raises(ValueError, match="columns do not fit"):
        triton.plan(chosen, images, WIDTH - 1, full=True)
