"""Moments of rows against torch's mean and variance, in blocks, and the same bits in every row of every batch."""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

import triton
import triton.language as tl

from scanline.kernels.triton.embedding import embed
from scanline.kernels.triton.moments import BLOCK, blocks, mean_and_rstd, row_moments
from tests.support.close import assert_close


@triton.jit
def _whole(moments, out, width: tl.constexpr, padded: tl.constexpr, rows: tl.constexpr):
    b = tl.arange(0, rows)
    mean, rstd = mean_and_rstd(moments, b, b >= 0, width, padded, 0.0)
    tl.store(out + b * 2, mean)
    tl.store(out + b * 2 + 1, 1.0 / (rstd * rstd))


@pytest.mark.parametrize("width", [1, 64, 65, 192, 256, 1100])
def test_moments_are_those_of_blocks_and_give_the_mean_and_variance_of_rows(width: int) -> None:
    (x,) = there(torch.randn(8, width) * 3 + 5)
    moments = row_moments(x)
    for i, block in enumerate(x.double().split(BLOCK.value, dim=1)):
        assert_close("mean", block.mean(dim=1), moments[:, i, 0])
        assert_close("squares", block.var(dim=1, correction=0) * block.shape[1], moments[:, i, 1])
    out = torch.empty(8, 2, device=DEVICE)
    if width > 1:
        _whole[(1,)](moments, out, width, triton.next_power_of_2(blocks(width)), 8)
        assert_close("mean of rows", x.double().mean(dim=1), out[:, 0])
        assert_close("variance of rows", x.double().var(dim=1, correction=0), out[:, 1])


def test_a_row_has_the_same_bits_in_every_batch() -> None:
    (x,) = there(torch.randn(9, 200))
    together = row_moments(x)
    for i in range(9):
        assert torch.equal(together[i : i + 1], row_moments(x[i : i + 1].contiguous()))


@pytest.mark.parametrize("concat", [False, True])
def test_the_embedding_stores_the_moments_of_its_vectors(concat: bool) -> None:
    width, length = 70, 4
    slots, position, images = torch.tensor([1, -1, 0]), torch.tensor([0, 3]), torch.zeros(2, length, dtype=torch.uint8)
    slots, position, images, values, places = there(
        slots, position, images, torch.randn(257, width), torch.randn(length, width)
    )
    x = torch.empty(3, width * (1 + concat), device=DEVICE)
    moments = torch.full((3, blocks(x.shape[1]), 2), 7.0, device=DEVICE)
    embed(slots, images, position, values, places, x, torch.empty_like(slots), moments=moments)
    assert torch.equal(row_moments(x), moments)


def test_sizes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        row_moments(torch.zeros(2, 65, device=DEVICE), torch.zeros(2, 1, 2, device=DEVICE))
