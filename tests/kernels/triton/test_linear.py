"""Products of float16 pairs: exact to 21 bits, whatever is fused to them,
in any batch; and moments of rows.
"""

import pytest
import torch
import torch.nn.functional as F

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

import triton
import triton.language as tl

from scanline.kernels.triton.embedding import embed
from scanline.kernels.triton.linear import NARROW, WIDE, Halves, linear
from scanline.kernels.triton.moments import BLOCK, blocks, mean_and_rstd, row_moments
from tests.support.close import assert_close

ACTIVATIONS = {"none": lambda x: x, "relu": F.relu, "gelu": F.gelu}


def inputs(batch: int, depth: int, width: int) -> tuple[torch.Tensor, ...]:
    """x, weight, bias, scale and shift of a norm, residual."""
    x = torch.randn(batch, depth) * 2 + 1
    weight = torch.randn(width, depth) / depth**0.5
    return there(
        x,
        weight,
        torch.randn(width),
        torch.randn(depth),
        torch.randn(depth),
        torch.randn(batch, width),
    )


@pytest.mark.parametrize(
    ("sizes", "normed", "activation"),
    [
        ((5, 20, 33), False, "none"),
        ((5, 20, 33), True, "relu"),
        ((65, 130, 30), True, "gelu"),
        ((1, 1, 1), False, "gelu"),
    ],
)
def test_agrees_with_torch(sizes: tuple[int, int, int], normed: bool, activation: str) -> None:
    x, weight, bias, scale, shift, residual = inputs(*sizes)
    wide = (
        F.layer_norm(x.double(), (sizes[1],), scale.double(), shift.double())
        if normed
        else x.double()
    )
    expected = ACTIVATIONS[activation](F.linear(wide, weight.double(), bias.double())) + residual
    out = torch.empty_like(residual)
    linear(
        x, Halves.of(weight), bias, out, (scale, shift) if normed else None, activation, residual
    )
    assert_close("product", expected, out)


def test_factors_have_21_bits() -> None:
    x, weight, bias, *_ = inputs(16, 256, 32)
    reference = F.linear(x.double(), weight.double(), bias.double())
    ours = linear(x, Halves.of(weight), bias, torch.empty_like(reference, dtype=torch.float32))
    # the sums of a tensor core, which truncates, are measured on a GPU
    bound = x.abs() @ weight.abs().T * 2.0**-21
    assert (ours - reference).abs().max() < bound.max()


def test_both_halves_are_the_weight_and_one_is_enough_for_float16() -> None:
    weight = torch.randn(50, 70)
    halves = Halves.of(weight)
    assert halves.low is not None
    assert_close(
        "weight", weight.double(), halves.high.double() + halves.low.double() / 2048, 2.0**-20
    )
    assert Halves.of(weight.half().float()).low is None
    with pytest.raises(ValueError, match="a weight of 65,504 or more"):
        Halves.of(torch.tensor([[1e5]]))


@pytest.mark.parametrize("batch", [1, 65])
def test_a_row_does_not_depend_on_the_batch(batch: int) -> None:
    x, weight, bias, scale, shift, residual = inputs(70, 130, 40)
    halves = Halves.of(weight)
    together = linear(x, halves, bias, torch.empty_like(residual), (scale, shift), "gelu", residual)
    part = (x[-batch:].contiguous(), residual[-batch:].contiguous())
    fewer = linear(
        part[0], halves, bias, torch.empty_like(part[1]), (scale, shift), "gelu", part[1]
    )
    assert torch.equal(together[-batch:], fewer)


def test_a_row_has_the_bias_of_its_label() -> None:
    x, weight, _, scale, shift, residual = inputs(5, 20, 70)
    slots, labels = there(torch.tensor([3, -1, 0, 2, 1]), torch.tensor([0, 2, 1, 2]))
    (biases,) = there(torch.randn(3, 70))
    for tiling in (WIDE, NARROW):
        how = (scale, shift), "gelu", residual, tiling
        ours = linear(
            x, Halves.of(weight), biases, torch.empty_like(residual), *how, labels=(slots, labels)
        )
        of_row = labels[slots.clamp(min=0)] * (slots >= 0)
        for label in range(3):
            alike = linear(
                x, Halves.of(weight), biases[label].contiguous(), torch.empty_like(residual), *how
            )
            assert torch.equal(ours[of_row == label], alike[of_row == label])


@pytest.mark.parametrize(
    ("rows", "stored"), [(1, torch.float16), (16, torch.float32), (70, torch.float16)]
)
def test_wide_programs_and_narrow_ones_are_the_same_bits(rows: int, stored: torch.dtype) -> None:
    x, weight, bias, scale, shift, residual = inputs(rows, 130, 140)
    halves = Halves.of(weight.to(stored).float())
    assert (halves.low is None) == (stored == torch.float16)
    results = []
    for shape in (WIDE, NARROW):
        out = torch.empty_like(residual)
        moments = residual.new_empty(rows, blocks(140), 2)
        linear(x, halves, bias, out, (scale, shift), "gelu", residual, shape, out_moments=moments)
        results.append((out, moments))
    assert all(map(torch.equal, *results))
    assert torch.equal(row_moments(results[0][0]), results[0][1])


def test_a_row_that_is_not_finite_stays_alone_and_the_result_may_take_the_place_of_the_residual() -> (
    None
):
    x, weight, bias, _, _, residual = inputs(5, 20, 33)
    halves = Halves.of(weight)
    apart = torch.empty_like(residual)
    linear(x, halves, bias, apart, residual=residual)
    poisoned = x.clone()
    poisoned[2] = float("nan")
    after = linear(poisoned, halves, bias, torch.empty_like(residual), residual=residual)
    assert torch.equal(apart[[0, 1, 3, 4]], after[[0, 1, 3, 4]])
    assert torch.equal(apart, linear(x, halves, bias, residual, residual=residual))
    with pytest.raises(ValueError, match="do not fit"):
        linear(x[:, 1:].contiguous(), halves, bias, residual)
    x[1, 2] = float("nan")
    assert linear(x, halves, bias, residual, activation="relu").isnan().all(dim=1).tolist() == [
        0,
        1,
        0,
        0,
        0,
    ]


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
    width = 70
    length = 4
    slots = torch.tensor([1, -1, 0])
    position = torch.tensor([0, 3])
    images = torch.zeros(2, length, dtype=torch.uint8)
    slots, position, images, values, places = there(
        slots, position, images, torch.randn(257, width), torch.randn(length, width)
    )
    x = torch.empty(3, width * (1 + concat), device=DEVICE)
    moments = torch.full((3, blocks(x.shape[1]), 2), 7.0, device=DEVICE)
    embed(slots, images, position, values, places, x, torch.empty_like(slots), moments=moments)
    assert torch.equal(row_moments(x), moments)


def test_moments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        row_moments(torch.zeros(2, 65, device=DEVICE), torch.zeros(2, 1, 2, device=DEVICE))
