"""Linear attention without a causal mask against the literal sums of eq. 4: outputs, gradients, padding."""

import pytest
import torch

from scanline.kernels.attention import causal_linear_attention, reference
from scanline.kernels.attention.noncausal import linear_attention
from tests.support.close import assert_close
from tests.support.kernels.heads import sequence

MASK = torch.tensor([[True] * 9 + [False] * 4, [True] * 13])


@pytest.mark.parametrize("mask", [None, MASK], ids=["whole", "padded"])
@pytest.mark.parametrize("widths", [(8, 5), (5, 8), (2, 1)])
def test_agrees_with_the_reference_and_its_gradients(widths: tuple[int, int], mask: torch.Tensor | None) -> None:
    inputs = [x.requires_grad_() for x in sequence(13, *widths)]
    wide = [x.detach().double().requires_grad_() for x in inputs]
    expected, result = reference.linear_attention(*wide, mask), linear_attention(*inputs, mask)
    assert_close("y", expected, result)
    gradient = torch.randn_like(result)
    expected.backward(gradient.double())
    result.backward(gradient)
    for name, a, b in zip(("q", "k", "v"), wide, inputs, strict=True):
        assert_close(f"gradient of {name}", a.grad, b.grad)


def test_padding_changes_nothing_whatever_it_holds() -> None:
    q, k, v = sequence(13)
    alone = linear_attention(q[:1, :, :9], k[:1, :, :9], v[:1, :, :9])
    k[0, :, 9:], v[0, :, 9:] = float("nan"), float("inf")
    padded = linear_attention(q, k, v, MASK)
    assert_close("y", alone, padded[:1, :, :9])
    assert padded.isfinite().all()


def test_the_last_query_sees_what_it_sees_causally() -> None:
    q, k, v = sequence(65)
    causal, _, _ = causal_linear_attention(q, k, v)
    assert_close("y", causal[:, :, -1], linear_attention(q, k, v)[:, :, -1])


def test_queries_of_another_length_and_a_sequence_without_keys() -> None:
    (q, _, _), (_, k, v) = sequence(7), sequence(13)
    y = linear_attention(q, k, v, MASK & torch.tensor([[True], [False]]))
    assert_close("y", reference.linear_attention(q[:1], k[:1], v[:1], MASK[:1]), y[:1])
    assert torch.equal(y[1], torch.zeros_like(y[1]))


@pytest.mark.parametrize(
    ("keys", "mask"), [((2, 3, 13, 7), (2, 13)), ((2, 3, 12, 8), (2, 13)), ((2, 3, 13, 8), (2, 12))]
)
def test_shapes_that_do_not_fit_are_refused(keys: tuple[int, ...], mask: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        linear_attention(torch.ones(2, 3, 13, 8), torch.ones(keys), torch.ones(2, 3, 13, 5), torch.ones(mask) > 0)
