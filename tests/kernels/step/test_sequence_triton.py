"""Successive steps in one launch are as many launches of the fused step, bit for bit."""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.step.fused_triton import fused_recurrent_step
from scanline.kernels.step.sequence_triton import fused_recurrent_sequence

HEADS, IMAGES, POSITIONS = 3, 3, 9


def inputs(widths: tuple[int, int], state_dtype: torch.dtype, deferred: int) -> tuple[torch.Tensor, ...]:
    """Projections, s, z, deferred steps, and the first position of each image and the one after its last: the last
    image has none."""
    key_width, value_width = widths
    projected = torch.randn(POSITIONS * IMAGES, HEADS * (2 * key_width + value_width))
    s, z = torch.randn(IMAGES, HEADS, key_width, value_width), torch.rand(IMAGES, HEADS, key_width) * 3
    rows = torch.rand(IMAGES, deferred, HEADS * (key_width + value_width))
    return there(projected, s.to(state_dtype), z, rows, torch.tensor([0, 1, 4]), torch.tensor([9, 3, 2]))


@pytest.mark.parametrize("state_dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(
    ("widths", "deferred", "at"),
    [((8, 5), 0, 0), ((1, 1), 3, 1), ((32, 32), 3, 2), *(((8, 5), 3, at) for at in range(4))],
)
def test_outputs_and_states_are_those_of_single_steps_bit_for_bit(
    widths: tuple[int, int], deferred: int, at: int, state_dtype: torch.dtype
) -> None:
    """Of steps of two bytes, `at` of them before position 0."""
    projected, *arrays, begin, end = inputs(widths, state_dtype, deferred)
    expected_y = torch.full((len(projected), HEADS * widths[1]), 7.0, device=DEVICE)
    expected, y = [array.clone() for array in arrays], expected_y.clone()
    for position in range(POSITIONS):
        rows = slice(position * IMAGES, (position + 1) * IMAGES)
        active = torch.where((begin <= position) & (position < end), torch.arange(IMAGES, device=DEVICE), -1)
        bytes_before = torch.full((IMAGES,), 2 * (at + position), device=DEVICE)
        fused_recurrent_step(projected[rows], *expected, bytes_before, active, 2, y=expected_y[rows])
    fused_recurrent_sequence(projected, *arrays, torch.tensor([2 * at], device=DEVICE), begin, end, 2, y=y)
    assert (y != 7).any()
    assert torch.equal(expected_y, y)
    held = (at + torch.maximum(begin, end)) % (deferred + 1)
    expected[2], arrays[2] = (
        array[torch.arange(deferred, device=DEVICE) < held[:, None]] for array in (expected[2], arrays[2])
    )
    assert all(torch.equal(*pair) for pair in zip(expected, arrays, strict=True))


def test_sizes_that_do_not_fit_are_refused() -> None:
    projected, *arrays, begin, end = inputs((8, 5), torch.float32, 0)
    for wrong in ((projected[:-1], begin), (projected[:, :-1], begin), (projected, begin[:-1])):
        with pytest.raises(ValueError, match="do not fit"):
            fused_recurrent_sequence(wrong[0].contiguous(), *arrays, begin, wrong[1], end)
