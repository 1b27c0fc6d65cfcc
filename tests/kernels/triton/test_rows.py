"""One program for a tile of rows has the bits of the chain of products, whatever it computes of them."""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, there  # isort: skip

from scanline.kernels.triton.linear import Halves, linear
from scanline.kernels.triton.moments import blocks
from scanline.kernels.triton.rows import Linear, Norm, feed_forward_rows, fits


def product(outer: int, inner: int) -> Linear:
    weight = (torch.randn(outer, inner) / inner**0.5).half().float()
    return Halves.of(weight.to(DEVICE)), torch.randn(outer, device=DEVICE)


def norm(width: int) -> Norm:
    return torch.randn(width, device=DEVICE), torch.randn(width, device=DEVICE)


@pytest.mark.parametrize(
    ("rows", "width", "hidden", "last", "activation"),
    [(1, 8, 64, 5, "gelu"), (33, 70, 128, 130, "gelu"), (35, 130, 64, 65, "relu")],
)
@pytest.mark.parametrize("convolved", [False, True])
def test_bits_are_those_of_the_chain_of_products(
    rows: int, width: int, hidden: int, last: int, activation: str, convolved: bool
) -> None:
    x, attended, other = there(*(torch.randn(rows, width) * 2 + 1 for _ in range(3)))
    before, first, second, after = (
        product(width, width),
        product(hidden, width),
        product(width, hidden),
        product(last, width),
    )
    norms = norm(width), norm(width)
    expected, expanded, parameters = x.clone(), x.new_empty(rows, hidden), x.new_empty(rows, last)
    moments = x.new_empty(rows, blocks(width), 2)
    if convolved:
        linear(other, *first, expanded, activation=activation)
    else:
        linear(attended, *before, expected, residual=expected, out_moments=moments)
        linear(expected, *first, expanded, norms[0], activation, moments=moments)
    linear(expanded, *second, expected, residual=expected, out_moments=moments)
    linear(expected, *after, parameters, norms[1], moments=moments)
    out, out_moments = torch.empty_like(parameters), torch.empty_like(moments)
    how = {"seen": other} if convolved else {"norm": norms[0], "attended": (attended, before)}
    feed_forward_rows(x, first, second, activation, after=(norms[1], after, out), moments=out_moments, **how)
    assert torch.equal(expected, x)
    assert torch.equal(moments, out_moments)
    assert torch.equal(parameters, out)


def test_weights_with_a_low_part_and_widths_that_do_not_fit_are_left_to_the_chain() -> None:
    whole, halves = Halves.of(torch.randn(4, 4)), Halves.of(torch.randn(4, 4).half().float())
    assert fits(4, 64, [halves])
    assert not fits(4, 64, [halves, whole])
    assert not fits(257, 64, [halves])
    assert not fits(4, 65, [halves])
    x, bias = torch.zeros(2, 4), torch.zeros(4)
    with pytest.raises(ValueError, match="do not fit"):
        feed_forward_rows(x, (halves, bias), (halves, bias), "gelu")
