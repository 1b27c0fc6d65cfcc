"""Products of float16 pairs: exact to 21 bits, whatever is fused to them, in programs of any size."""

import pytest
import torch
import torch.nn.functional as F

from tests.support.kernels.gpu import there  # isort: skip

from scanline.kernels.triton.linear import NARROW, WIDE, Halves, linear
from scanline.kernels.triton.moments import blocks, row_moments
from tests.support.close import assert_close

ACTIVATIONS = {"none": lambda x: x, "relu": F.relu, "gelu": F.gelu}


def inputs(batch, depth, width):
    """x, weight, bias, scale and shift of a norm, residual."""
    return there(
        torch.randn(batch, depth) * 2 + 1,
        torch.randn(width, depth) / depth**0.5,
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
def test_agrees_with_torch(sizes, normed, activation):
    x, weight, bias, scale, shift, residual = inputs(*sizes)
    wide = x.double()
    norm = None
    if normed:
        norm = (scale, shift)
        wide = F.layer_norm(wide, sizes[1:2], scale.double(), shift.double())
    product = F.linear(wide, weight.double(), bias.double())
    expected = ACTIVATIONS[activation](product) + residual
    out = torch.empty_like(residual)
    linear(
        x,
        Halves.of(weight),
        bias,
        out,
        norm,
        activation,
        residual,
    )
    assert_close("product", expected, out)


def test_factors_have_21_bits():
    x, weight, bias, _, _, residual = inputs(16, 256, 32)
    reference = F.linear(x.double(), weight.double(), bias.double())
    ours = linear(x, Halves.of(weight), bias, torch.empty_like(residual))
    # the sums of a tensor core, which truncates, are measured on a GPU
    bound = x.abs() @ weight.abs().T * 2.0**-21
    assert (ours - reference).abs().max() < bound.max()


def test_both_halves_are_the_weight_and_one_is_enough_for_float16():
    weight = torch.randn(50, 70)
    halves = Halves.of(weight)
    both = halves.high.double() + halves.low.double() / 2048
    assert_close("weight", weight, both, 2.0**-20)
    assert Halves.of(weight.half().float()).low is None
    with pytest.raises(ValueError, match="a weight of 65,504 or more"):
        Halves.of(torch.tensor([[1e5]]))


def test_a_row_has_the_bias_of_its_label():
    x, weight, _, scale, shift, residual = inputs(5, 20, 70)
    halves = Halves.of(weight)
    slots, labels, biases = there(
        torch.tensor([3, -1, 0, 2, 1]), torch.tensor([0, 2, 1, 2]), torch.randn(3, 70)
    )
    label_of_row = labels[slots.clamp(min=0)] * (slots >= 0)
    for tiling in (WIDE, NARROW):
        how = (scale, shift), "gelu", residual, tiling
        labelled = torch.empty_like(residual)
        linear(x, halves, biases, labelled, *how, labels=(slots, labels))
        for label in range(3):
            alike = torch.empty_like(residual)
            linear(x, halves, biases[label].contiguous(), alike, *how)
            rows = label_of_row == label
            assert torch.equal(labelled[rows], alike[rows])


@pytest.mark.parametrize(
    ("rows", "stored"), [(1, torch.float16), (16, torch.float32), (70, torch.float16)]
)
def test_wide_programs_and_narrow_ones_are_the_same_bits(rows, stored):
    x, weight, bias, scale, shift, residual = inputs(rows, 130, 140)
    halves = Halves.of(weight.to(stored).float())
    assert (halves.low is None) == (stored == torch.float16)
    results = []
    for tiling in (WIDE, NARROW):
        out = torch.empty_like(residual)
        moments = residual.new_empty(rows, blocks(140), 2)
        linear(
            x,
            halves,
            bias,
            out,
            (scale, shift),
            "gelu",
            residual,
            tiling,
            out_moments=moments,
        )
        assert torch.equal(row_moments(out), moments)
        results.append(out)
    assert torch.equal(*results)


def test_a_row_that_is_not_finite_stays_alone():
    x, weight, bias, _, _, residual = inputs(5, 20, 33)
    halves = Halves.of(weight)
    sound = linear(x, halves, bias, torch.empty_like(residual), activation="relu")
    x[2, 3] = torch.nan
    found = linear(x, halves, bias, torch.empty_like(residual), activation="relu")
    assert found[2].isnan().all()
    others = [0, 1, 3, 4]
    assert torch.equal(sound[others], found[others])


def test_the_result_may_take_the_place_of_the_residual():
    x, weight, bias, _, _, residual = inputs(5, 20, 33)
    halves = Halves.of(weight)
    apart = linear(x, halves, bias, torch.empty_like(residual), residual=residual)
    assert torch.equal(apart, linear(x, halves, bias, residual, residual=residual))
