"""Rows of several steps of an image, and those of them that are added later, against as many
launches of the fused step, bit for bit.
"""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, NARROW, there  # isort: skip

from scanline.kernels.step.ahead_triton import add_rows, fused_recurrent_rows
from scanline.kernels.step.fused_triton import fused_recurrent_step

HEADS = 3
WIDTHS = (5, 7)
POOL = 5
LAYERS = 2
SIZE = 2  # bytes of a step
SLOTS = [3, 1, -1, 0, 4]
COUNT = [4, 4, 0, 1, 7]
RIGHT = [2, 2, 0, 1, 7]
# the first two are a pair, whose rows take turns
FIRST = [0, 1, 8, 8, 9]
STRIDE = [2, 2, 1, 1, 1]
ROWS = 18


@pytest.mark.parametrize("deferred", [0, 3])
@pytest.mark.parametrize("state_dtype", [torch.float32, *NARROW])
def test_rows_are_steps_and_only_right_ones_are_added(state_dtype, deferred):
    row_size = HEADS * sum(WIDTHS)
    projected, s, z, kept_steps, begin, slots = there(
        torch.randn(LAYERS, ROWS, HEADS * (2 * WIDTHS[0] + WIDTHS[1])),
        torch.randn(LAYERS, POOL, HEADS, *WIDTHS).to(state_dtype),
        torch.rand(LAYERS, POOL, HEADS, WIDTHS[0]),
        torch.randn(LAYERS, POOL, deferred, row_size),
        SIZE * torch.tensor([2, 3, 0, 5, 6]),
        torch.tensor(SLOTS),
    )
    expected = s.clone(), z.clone(), kept_steps.clone()
    count, right, first, stride = there(
        torch.tensor(COUNT), torch.tensor(RIGHT), torch.tensor(FIRST), torch.tensor(STRIDE)
    )
    before = s.clone(), z.clone(), kept_steps.clone()
    kept = torch.full((LAYERS, ROWS, row_size), 7.0, device=DEVICE)
    for layer in range(LAYERS):
        y = fused_recurrent_rows(
            projected[layer],
            s[layer],
            z[layer],
            kept_steps[layer],
            slots,
            begin,
            count,
            first,
            stride,
            kept[layer],
            SIZE,
        )
        for image, slot in enumerate(SLOTS):
            state = [array[layer, slot : slot + 1].clone() for array in expected]
            for step in range(COUNT[image]):
                if step == RIGHT[image]:
                    for array, changed in zip(expected, state, strict=True):
                        array[layer, slot] = changed[0]
                row = FIRST[image] + step * STRIDE[image]
                position = begin[image : image + 1] + SIZE * step
                zero = torch.zeros(1, dtype=torch.int64, device=DEVICE)
                alone = fused_recurrent_step(
                    projected[layer, row : row + 1], *state, position, zero, SIZE
                )
                assert torch.equal(alone[0], y[row])
            if COUNT[image] == RIGHT[image] and slot >= 0:
                for array, changed in zip(expected, state, strict=True):
                    array[layer, slot] = changed[0]
    assert all(map(torch.equal, before, (s, z, kept_steps)))
    add_rows(kept, s, z, kept_steps, slots, begin, right, first, stride, SIZE)
    assert torch.equal(expected[0], s)
    assert torch.equal(expected[1], z)
    # Rows behind those that are held are of no meaning.
    held = torch.zeros(POOL, dtype=torch.int64)
    for image, slot in enumerate(SLOTS):
        if slot >= 0:
            steps = int(begin[image]) // SIZE + RIGHT[image]
            held[slot] = steps % (deferred + 1)
            assert torch.equal(
                expected[2][:, slot, : held[slot]], kept_steps[:, slot, : held[slot]]
            )
