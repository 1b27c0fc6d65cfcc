"""Slots beyond the 2^31st number of an array, which thousands of large
images reach: offsets have 64 bits.
"""

import numpy as np
import torch

from tests.support.kernels.gpu import DEVICE, ON_GPU, there  # isort: skip

from scanline.kernels.causal_conv import BEYOND, NEIGHBOURS
from scanline.kernels.causal_conv.triton import causal_conv
from scanline.kernels.step.fused_triton import fused_recurrent_step
from scanline.kernels.triton.copy_slots import copy_slots
from scanline.kernels.triton.embedding import embed

BEYOND_INT32 = 2**31


def zeros(*shape: int) -> torch.Tensor:
    """Zeros. On a CPU only the pages that are written take memory."""
    return (
        torch.zeros(shape, device=DEVICE)
        if ON_GPU
        else torch.from_numpy(np.zeros(shape, np.float32))
    )


def last(slots: int) -> torch.Tensor:
    return torch.tensor([slots - 1], device=DEVICE)


def test_a_step_of_the_last_slot_and_its_copy() -> None:
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
    copy_slots(many[0], last(slots), last(slots) - 1)
    copy_slots(
        many[0].view(2, slots // 2, -1), last(slots // 2), last(slots // 2) - 2, layered=True
    )
    assert torch.equal(many[0][-2], one[0][0])
    assert torch.equal(many[0][-3], one[0][0])


def test_a_convolution_of_the_last_slot() -> None:
    width = 32
    depth = 160
    slots = BEYOND_INT32 // ((width + BEYOND) * depth) + 2
    many = zeros(slots, width + BEYOND, depth)
    conv_weight = torch.randn(NEIGHBOURS, depth, device=DEVICE)
    one = torch.zeros_like(many[:1])
    for pixel in range(3):
        (x,) = there(torch.randn(1, depth))
        results = torch.zeros(2, 1, depth, device=DEVICE)
        for kept, count, out in zip((one, many), (1, slots), results, strict=True):
            causal_conv(
                x,
                conv_weight,
                last(count),
                torch.full((count,), pixel, device=DEVICE),
                kept,
                1,
                out,
            )
        assert torch.equal(results[0], results[1])
    assert torch.equal(many[-1], one[0])


def test_the_last_image_of_a_pool() -> None:
    length = 3072
    width = 8
    slots = BEYOND_INT32 // length + 2
    images = zeros(slots, length // 4).view(torch.uint8)
    images[-1, 0] = 77
    values = torch.randn(257, width, device=DEVICE)
    places = torch.randn(length, width, device=DEVICE)
    x = torch.zeros(1, width, device=DEVICE)
    active = last(0)
    position = torch.ones(slots, dtype=torch.int64, device=DEVICE)
    embed(last(slots), images, position, values, places, x, active)
    assert torch.equal(x[0], values[77] + places[1])
