"""Slots beyond the 2^31st number of an array, which thousands of large
images reach: offsets have 64 bits.
"""

import numpy as np
import torch

from tests.support.kernels.gpu import DEVICE, ON_GPU, there  # isort: skip

from scanline.kernels.step.fused_triton import fused_recurrent_step
from scanline.kernels.triton.copy_slots import copy_slots

BEYOND_INT32 = 2**31


def zeros(*shape):
    """Zeros. On a CPU only the pages that are written take memory."""
    return (
        torch.zeros(shape, device=DEVICE)
        if ON_GPU
        else torch.from_numpy(np.zeros(shape, np.float32))
    )


def last(slots):
    return torch.tensor([slots - 1], device=DEVICE)


def test_a_step_of_the_last_slot_and_its_copy():
    heads = 8
    width = 32
    slots = BEYOND_INT32 // (heads * width * width) + 2
    many = [
        zeros(slots, heads, width, width),
        zeros(slots, heads, width),
        zeros(slots, 3, heads * 2 * width),
    ]
    one = [torch.zeros_like(array[:1]) for array in many]
    for step in range(5):  # the fourth writes s and z, the fifth is deferred again
        (projected,) = there(torch.randn(1, 3 * heads * width))
        expected = fused_recurrent_step(
            projected, *one, torch.tensor([step], device=DEVICE), last(1)
        )
        position = torch.full((slots,), step, device=DEVICE)
        assert torch.equal(fused_recurrent_step(projected, *many, position, last(slots)), expected)
    assert all(torch.equal(array[-1], own[0]) for array, own in zip(many, one, strict=True))
    copy_slots(
        many[0],
        last(slots),
        last(slots) - 1,
    )
    copy_slots(
        many[0].view(2, slots // 2, -1), last(slots // 2), last(slots // 2) - 2, layered=True
    )
    assert torch.equal(many[0][-2], one[0][0])
    assert torch.equal(many[0][-3], one[0][0])
