"""Successive steps in one launch are as many launches of the fused step, bit for bit."""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.step.fused_triton import fused_recurrent_step
from scanline.kernels.step.sequence_triton import fused_recurrent_sequence

HEADS, IMAGES, POSITIONS = 3, 3, 5


def inputs(widths: tuple[int, int], state_dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Projections, s, z, and the first position of each image and the one after its last: the last image has none."""
    key_width, value_width = widths
    projected = torch.randn(POSITIONS * IMAGES, HEADS * (2 * key_width + value_width))
    s, z = torch.randn(IMAGES, HEADS, key_width, value_width), torch.rand(IMAGES, HEADS, key_width) * 3
    return there(projected, s.to(state_dtype), z, torch.tensor([0, 1, 4]), torch.tensor([5, 3, 2]))


@pytest.mark.parametrize("state_dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("widths", [(8, 5), (1, 1), (32, 32)])
def test_outputs_and_states_are_those_of_single_steps_bit_for_bit(
    widths: tuple[int, int], state_dtype: torch.dtype
) -> None:
    projected, s, z, begin, end = inputs(widths, state_dtype)
    expected_y = torch.full((len(projected), HEADS * widths[1]), 7.0, device=DEVICE)
    expected_s, expected_z, y = s.clone(), z.clone(), expected_y.clone()
    for position in range(POSITIONS):
        rows = slice(position * IMAGES, (position + 1) * IMAGES)
        active = torch.where((begin <= position) & (position < end), torch.arange(IMAGES, device=DEVICE), -1)
        fused_recurrent_step(projected[rows], expected_s, expected_z, active, y=expected_y[rows])
    fused_recurrent_sequence(projected, s, z, begin, end, y=y)
    assert (y != 7).any()
    assert torch.equal(expected_y, y)
    assert torch.equal(expected_s, s)
    assert torch.equal(expected_z, z)


def test_sizes_that_do_not_fit_are_refused() -> None:
    projected, s, z, begin, end = inputs((8, 5), torch.float32)
    for wrong in ((projected[:-1], begin), (projected[:, :-1], begin), (projected, begin[:-1])):
        with pytest.raises(ValueError, match="do not fit"):
            fused_recurrent_sequence(wrong[0].contiguous(), s, z, wrong[1], end)
