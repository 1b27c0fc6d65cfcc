"""The part that sampling kernels share: the random words of kernels/philox.py, and the weight that a uniform picks."""

import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

import pytest
import triton
import triton.language as tl

from scanline.kernels import philox
from scanline.kernels.triton.sampling import check, draw_uniforms, pick


@triton.jit
def _pick(log_weights, uniform, out, values, rows: tl.constexpr, block: tl.constexpr):
    row, k = tl.arange(0, rows), tl.arange(0, block)
    there = k[None, :] < values
    given = tl.load(log_weights + row[:, None] * values + k[None, :], mask=there, other=-float("inf"))
    tl.store(out + row, pick(given, tl.load(uniform + row), there, values))


def test_uniforms_are_philox_bit_for_bit() -> None:
    count = 200  # more than a program has
    seed, index = torch.randint(0, 2**63 - 1, (count,)), torch.randint(0, 2**63 - 1, (count,))
    position = torch.randint(0, 3072, (count,))
    seed[:2], index[:2] = torch.tensor([0, 2**63 - 1]), torch.tensor([0, 2**32])
    for part in (slice(0, count), slice(3, 4)):  # from a place that is not aligned, too
        given = [tensor[part] for tensor in there(seed, index, position)]
        assert torch.equal(philox.uniforms(seed, index, position)[part], draw_uniforms(*given).cpu())
    with pytest.raises(ValueError, match=r"seeds \[200\], indices \[199\]"):
        draw_uniforms(seed, index[1:], position)


def test_each_value_is_picked_by_its_share_of_the_uniforms() -> None:
    weights, rows = torch.tensor([2.0, 0.0, 1.0, 5.0, 0.0]), 1024
    uniform = (torch.arange(rows) + 0.5) / rows
    uniform[0], uniform[-1] = 2.0**-24, 1 - 2.0**-24  # the extremes of Philox's
    log_weights = (weights.log() + 80).expand(rows, -1).contiguous()
    out = torch.empty(rows, dtype=torch.int32, device=DEVICE)
    _pick[(1,)](*there(log_weights, uniform), out, len(weights), rows, 8)
    assert torch.bincount(out.cpu(), minlength=5).tolist() == [256, 0, 128, 640, 0]
    assert torch.equal(out, out.sort().values)


def test_sizes_that_do_not_fit_are_refused() -> None:
    slots, images = torch.zeros(2, dtype=torch.int64), torch.zeros(3, 4, dtype=torch.uint8)
    check(torch.zeros(2, 6), 6, slots, images, images.bool())
    for rows, width, known in ((3, 6, 4), (2, 7, 4), (2, 6, 5)):
        with pytest.raises(ValueError, match="do not fit"):
            check(torch.zeros(rows, width), 6, slots, images, torch.zeros(3, known, dtype=torch.bool))
