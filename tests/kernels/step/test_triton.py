"""The fused recurrent step, and many in one launch, against the literal loop: other slots are not
changed.
"""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, NARROW, there  # isort: skip

from scanline.kernels.feature_maps import elu_plus_one
from scanline.kernels.step import reference
from scanline.kernels.step.fused_triton import fused_recurrent_step
from scanline.kernels.step.sequence_triton import fused_recurrent_sequence
from scanline.model.base.state import with_deferred
from tests.support.close import BOUND, assert_close
from tests.support.kernels.heads import WIDTHS

HEADS = 3
POOL = 7


def inputs(batch, key_width, value_width):
    """A projection before the feature map, s, z, no deferred steps, positions and slots, one of
    them none.
    """
    slots = torch.randperm(POOL)[:batch]
    if batch > 1:
        slots[1] = -1
    return there(
        torch.randn(batch, HEADS * (2 * key_width + value_width)),
        torch.randn(POOL, HEADS, key_width, value_width),
        torch.rand(POOL, HEADS, key_width) * 3,
        torch.zeros(POOL, 0, HEADS * (key_width + value_width)),
        torch.arange(POOL),
        slots,
    )


def assert_steps(state_dtype, bound, batch, widths):
    """Fail where a step is not the reference's, in float64, or changes another slot."""
    key_width, value_width = widths
    projected, s, z, deferred, position, slots = inputs(batch, *widths)
    s = s.to(state_dtype)
    live = slots >= 0
    chosen = slots[live]
    queries_and_keys = 2 * HEADS * key_width
    wide = projected[live].double()
    v = wide[:, queries_and_keys:].view(-1, HEADS, value_width)
    both = elu_plus_one(wide[:, :queries_and_keys]).view(-1, 2, HEADS, key_width)
    expected_s = s.double()
    expected_z = z.double()
    new_s = expected_s[chosen]
    new_z = expected_z[chosen]
    expected = reference.recurrent_step(both[:, 0], both[:, 1], v, new_s, new_z)
    expected_s[chosen] = new_s
    expected_z[chosen] = new_z
    y = torch.full((batch, HEADS * value_width), 7.0, device=DEVICE)
    fused_recurrent_step(projected, s, z, deferred, position, slots, y=y)
    assert_close("y, from sums that are not rounded yet", expected.flatten(1), y[live])
    assert (y[~live] == 7).all()
    assert_close("s", expected_s, s, bound)
    assert_close("z", expected_z, z)
    others = torch.ones(POOL, dtype=torch.bool, device=DEVICE)
    others[chosen] = False
    assert torch.equal(expected_s[others], s[others].double())


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("batch", [1, 5])
def test_chosen_slots_agree_with_the_reference_and_others_stay(batch, widths):
    assert_steps(torch.float32, BOUND, batch, widths)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_state_stored_in_16_bits_is_rounded_once_a_step(dtype):
    assert_steps(dtype, torch.finfo(dtype).eps * 4, 5, (8, 5))


def test_a_step_does_not_depend_on_the_batch():
    projected, s, z, *rest, slots = inputs(5, 33, 17)
    alone_s = s.clone()
    alone_z = z.clone()
    together = fused_recurrent_step(projected, s, z, *rest, slots)
    one = projected[3:4].contiguous()
    alone = fused_recurrent_step(one, alone_s, alone_z, *rest, slots[3:4])
    assert torch.equal(together[3], alone[0])
    assert torch.equal(s[slots[3]], alone_s[slots[3]])
    assert torch.equal(z[slots[3]], alone_z[slots[3]])


@pytest.mark.parametrize("deferred", [1, 3])
@pytest.mark.parametrize("state_dtype", [torch.float32, *NARROW])
def test_deferred_steps_are_those_that_write_the_state_bit_for_bit(state_dtype, deferred):
    """Slots at different positions, of steps of two bytes; 16-bit states are rounded where they
    are written alone.
    """
    _, s, z, none, position, slots = inputs(5, 8, 5)
    s = s.to(state_dtype)
    position = 2 * position
    live = slots[slots >= 0]
    rows = torch.zeros(POOL, deferred, none.shape[2], device=DEVICE)
    for slot in range(POOL):
        rows[slot, slot % (deferred + 1) :] = float("nan")  # of earlier images
    written_s = s.to(torch.float32, copy=True)
    written_z = z.clone()
    for step in range(5):
        (projected,) = there(torch.randn(5, HEADS * (2 * 8 + 5)))
        expected = fused_recurrent_step(projected, written_s, written_z, none, position, slots)
        at_once = step % 2 == 0
        found = fused_recurrent_step(
            projected, s, z, rows, position, slots, step_bytes=2, at_once=at_once
        )
        assert torch.equal(expected, found)
        position += 2
        held = position // 2 % (deferred + 1)
        full = held == 0
        written_s[full] = written_s[full].to(state_dtype).float()
        complete_s, complete_z = with_deferred(s, z, rows, held[:, None, None])
        assert torch.equal(written_s[live], complete_s[live])
        assert torch.equal(written_z[live], complete_z[live])


IMAGES = 3
POSITIONS = 9


def sequences(widths, state_dtype, deferred):
    """Projections, s, z, deferred steps, and the first position of each image and the one after
    its last: the last image has none."""
    key_width, value_width = widths
    return there(
        torch.randn(POSITIONS * IMAGES, HEADS * (2 * key_width + value_width)),
        torch.randn(IMAGES, HEADS, key_width, value_width).to(state_dtype),
        torch.rand(IMAGES, HEADS, key_width) * 3,
        torch.rand(IMAGES, deferred, HEADS * (key_width + value_width)),
        torch.tensor([0, 1, 4]),
        torch.tensor([9, 3, 2]),
    )


@pytest.mark.parametrize("state_dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("widths", "deferred", "at"),
    [
        ((8, 5), 0, 0),
        ((1, 1), 3, 1),
        ((32, 32), 3, 2),
        ((8, 5), 3, 0),
        ((8, 5), 3, 1),
        ((8, 5), 3, 2),
        ((8, 5), 3, 3),
    ],
)
def test_outputs_and_states_are_those_of_single_steps_bit_for_bit(
    widths, deferred, at, state_dtype
):
    """Of steps of two bytes, `at` of them before position 0."""
    projected, *arrays, begin, end = sequences(widths, state_dtype, deferred)
    expected = [array.clone() for array in arrays]
    y = torch.full((len(projected), HEADS * widths[1]), 7.0, device=DEVICE)
    expected_y = y.clone()
    images = torch.arange(IMAGES, device=DEVICE)
    for position in range(POSITIONS):
        rows = slice(position * IMAGES, (position + 1) * IMAGES)
        active = torch.where((begin <= position) & (position < end), images, -1)
        before = torch.full((IMAGES,), 2 * (at + position), device=DEVICE)
        fused_recurrent_step(
            projected[rows],
            *expected,
            before,
            active,
            2,
            y=expected_y[rows],
        )
    start = torch.tensor([2 * at], device=DEVICE)
    fused_recurrent_sequence(projected, *arrays, start, begin, end, 2, y=y)
    assert (y != 7).any()
    assert torch.equal(expected_y, y)
    assert torch.equal(expected[0], arrays[0])
    assert torch.equal(expected[1], arrays[1])
    held = (at + torch.maximum(begin, end)) % (deferred + 1)
    is_held = torch.arange(deferred, device=DEVICE) < held[:, None]
    assert torch.equal(expected[2][is_held], arrays[2][is_held])
