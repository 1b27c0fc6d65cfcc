"""The fused recurrent step, and many in one launch, against the literal
loop: other slots are not changed.
"""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, NARROW, there  # isort: skip

from scanline.kernels.feature_maps import elu_plus_one
from scanline.kernels.step import reference
from scanline.kernels.step.fused_triton import fused_recurrent_step
from scanline.kernels.step.sequence_triton import fused_recurrent_sequence
from scanline.model.base.state import with_deferred
from tests.support.close import assert_close

HEADS = 3
POOL = 7


def inputs(batch: int, key_width: int, value_width: int) -> tuple[torch.Tensor, ...]:
    """A projection before the feature map, s, z, no deferred steps, positions
    and its slots, one of them none.
    """
    projected = torch.randn(batch, HEADS * (2 * key_width + value_width))
    s = torch.randn(POOL, HEADS, key_width, value_width)
    z = torch.rand(POOL, HEADS, key_width) * 3
    slots = torch.randperm(POOL)[:batch]
    if batch > 1:
        slots[1] = -1
    deferred = torch.zeros(POOL, 0, HEADS * (key_width + value_width))
    return there(projected, s, z, deferred, torch.arange(POOL), slots)


def law_of(
    projected: torch.Tensor, s: torch.Tensor, z: torch.Tensor, slots: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """y, s and z of the chosen slots by the reference, in float64."""
    _, heads, key_width, value_width = s.shape
    live = slots >= 0
    both, v = projected[live].double().split((2 * heads * key_width, heads * value_width), dim=1)
    q, k = elu_plus_one(both).view(-1, 2, heads, key_width).unbind(1)
    s = s[slots[live]].double()
    z = z[slots[live]].double()
    return reference.recurrent_step(q, k, v.view(-1, heads, value_width), s, z).flatten(1), s, z


@pytest.mark.parametrize("widths", [(8, 5), (5, 8), (1, 1), (32, 32), (33, 17)])
@pytest.mark.parametrize("batch", [1, 5])
def test_agrees_with_the_reference(batch: int, widths: tuple[int, int]) -> None:
    projected, s, z, *rest, slots = inputs(batch, *widths)
    expected = law_of(projected, s, z, slots)
    live = slots >= 0
    results = (
        fused_recurrent_step(projected, s, z, *rest, slots)[live],
        s[slots[live]],
        z[slots[live]],
    )
    for name, reference_, result in zip(("y", "s", "z"), expected, results, strict=True):
        assert_close(name, reference_, result)


def test_slots_that_were_not_chosen_are_not_changed() -> None:
    projected, s, z, *rest, slots = inputs(5, 8, 5)
    before = (s.clone(), z.clone())
    y = torch.full((5, HEADS * 5), 7.0, device=DEVICE)
    fused_recurrent_step(projected, s, z, *rest, slots, y=y)
    for slot in range(POOL):
        for now, then in zip((s, z), before, strict=True):
            assert torch.equal(now[slot], then[slot]) == (slot not in slots.tolist())
    assert [bool((y[i] == 7).all()) for i in range(5)] == (slots < 0).tolist()


def test_a_step_does_not_depend_on_the_batch() -> None:
    projected, s, z, *rest, slots = inputs(5, 33, 17)
    alone = (s.clone(), z.clone())
    slot = slots[3]
    together = fused_recurrent_step(projected, s, z, *rest, slots)
    assert torch.equal(
        together[3], fused_recurrent_step(projected[3:4].contiguous(), *alone, *rest, slots[3:4])[0]
    )
    assert torch.equal(s[slot], alone[0][slot])
    assert torch.equal(z[slot], alone[1][slot])


@pytest.mark.parametrize("state_dtype", [torch.float16, torch.bfloat16])
def test_a_state_stored_in_16_bits_is_rounded_once_a_step(state_dtype: torch.dtype) -> None:
    projected, s, z, *rest, slots = inputs(5, 8, 5)
    s = s.to(state_dtype)
    expected_y, expected_s, _ = law_of(projected, s, z, slots)
    y = fused_recurrent_step(projected, s, z, *rest, slots)
    live = slots >= 0
    assert_close("y, from sums that are not rounded yet", expected_y, y[live])
    assert_close("s", expected_s, s[slots[live]], torch.finfo(state_dtype).eps * 4)


@pytest.mark.parametrize("deferred", [1, 3])
@pytest.mark.parametrize("state_dtype", [torch.float32, *NARROW])
def test_deferred_steps_are_those_that_write_the_state_bit_for_bit(
    state_dtype: torch.dtype, deferred: int
) -> None:
    """Slots at different positions, of steps of two bytes; 16-bit states are
    rounded where they are written alone.
    """
    _, s, z, none, position, slots = inputs(5, 8, 5)
    s = s.to(state_dtype)
    position = 2 * position
    live = slots[slots >= 0]
    rows = torch.zeros(POOL, deferred, none.shape[2], device=DEVICE)
    for slot in range(POOL):
        rows[slot, slot % (deferred + 1) :] = float("nan")  # of earlier images
    own_s = s.to(torch.float32, copy=True)
    own_z = z.clone()
    for step in range(5):
        (projected,) = there(torch.randn(5, HEADS * (2 * 8 + 5)))
        expected = fused_recurrent_step(projected, own_s, own_z, none, position, slots)
        found = fused_recurrent_step(
            projected, s, z, rows, position, slots, step_bytes=2, at_once=step % 2 == 0
        )
        assert torch.equal(expected, found)
        position += 2
        held = position // 2 % (deferred + 1)
        own_s[held == 0] = own_s[held == 0].to(state_dtype).float()
        complete = with_deferred(s, z, rows, held[:, None, None])
        assert all(
            torch.equal(one[live], other[live])
            for one, other in zip((own_s, own_z), complete, strict=True)
        )


def test_an_unknown_feature_map_and_shapes_that_do_not_fit_are_refused() -> None:
    projected, s, z, *rest, slots = inputs(5, 8, 5)
    with pytest.raises(ValueError, match=r"unknown feature map 'relu'"):
        fused_recurrent_step(projected, s, z, *rest, slots, feature_map="relu")
    with pytest.raises(ValueError, match="do not fit"):
        fused_recurrent_step(projected[:, 1:].contiguous(), s, z, *rest, slots)


IMAGES = 3
POSITIONS = 9


def sequences(
    widths: tuple[int, int], state_dtype: torch.dtype, deferred: int
) -> tuple[torch.Tensor, ...]:
    """Projections, s, z, deferred steps, and the first position of each image and the one after
    its last: the last image has none."""
    key_width, value_width = widths
    projected = torch.randn(POSITIONS * IMAGES, HEADS * (2 * key_width + value_width))
    s = torch.randn(IMAGES, HEADS, key_width, value_width)
    z = torch.rand(IMAGES, HEADS, key_width) * 3
    rows = torch.rand(IMAGES, deferred, HEADS * (key_width + value_width))
    return there(
        projected, s.to(state_dtype), z, rows, torch.tensor([0, 1, 4]), torch.tensor([9, 3, 2])
    )


@pytest.mark.parametrize("state_dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("widths", "deferred", "at"),
    [((8, 5), 0, 0), ((1, 1), 3, 1), ((32, 32), 3, 2), *(((8, 5), 3, at) for at in range(4))],
)
def test_outputs_and_states_are_those_of_single_steps_bit_for_bit(
    widths: tuple[int, int], deferred: int, at: int, state_dtype: torch.dtype
) -> None:
    """Of steps of two bytes, `at` of them before position 0."""
    projected, *arrays, begin, end = sequences(widths, state_dtype, deferred)
    expected_y = torch.full((len(projected), HEADS * widths[1]), 7.0, device=DEVICE)
    expected = [array.clone() for array in arrays]
    y = expected_y.clone()
    for position in range(POSITIONS):
        rows = slice(position * IMAGES, (position + 1) * IMAGES)
        active = torch.where(
            (begin <= position) & (position < end), torch.arange(IMAGES, device=DEVICE), -1
        )
        bytes_before = torch.full((IMAGES,), 2 * (at + position), device=DEVICE)
        fused_recurrent_step(
            projected[rows], *expected, bytes_before, active, 2, y=expected_y[rows]
        )
    fused_recurrent_sequence(
        projected, *arrays, torch.tensor([2 * at], device=DEVICE), begin, end, 2, y=y
    )
    assert (y != 7).any()
    assert torch.equal(expected_y, y)
    held = (at + torch.maximum(begin, end)) % (deferred + 1)
    expected[2], arrays[2] = (
        array[torch.arange(deferred, device=DEVICE) < held[:, None]]
        for array in (expected[2], arrays[2])
    )
    assert all(torch.equal(*pair) for pair in zip(expected, arrays, strict=True))


def test_sequences_that_do_not_fit_are_refused() -> None:
    projected, *arrays, begin, end = sequences((8, 5), torch.float32, 0)
    for wrong in ((projected[:-1], begin), (projected[:, :-1], begin), (projected, begin[:-1])):
        with pytest.raises(ValueError, match="do not fit"):
            fused_recurrent_sequence(wrong[0].contiguous(), *arrays, begin, wrong[1], end)
