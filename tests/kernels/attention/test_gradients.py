"""The hand-written backward (eq. 13-15) against float64 autograd of the reference, and finite differences."""

import pytest
import torch

from scanline.kernels.attention import causal_linear_attention, reference
from tests.support.close import assert_close
from tests.support.kernels.heads import SIZES, sequence, state, with_gradients


@pytest.mark.parametrize("given", ["nothing", "state", "state and weights"])
@pytest.mark.parametrize("length", SIZES)
def test_gradients_agree_with_float64_autograd_of_the_reference(length: int, given: str) -> None:
    inputs, more = sequence(length), () if given == "nothing" else state()
    if given == "state and weights":
        more = (*more, torch.randint(0, 14, (2, length)).float())
    weights = torch.randn_like(inputs[2])
    wide = [x.double() for x in inputs], [x.double() for x in more], weights.double()
    *_, expected = with_gradients(reference.causal_linear_attention, *wide)
    *_, ours = with_gradients(causal_linear_attention, inputs, more, weights)
    assert_close("phi_q, phi_k, v", expected, ours)


@pytest.mark.parametrize("length", [3, 66])
def test_gradients_agree_with_finite_differences_and_the_returned_state_carries_none(length: int) -> None:
    inputs = [x.requires_grad_() for x in sequence(length, 3, 2, torch.float64, batch=1)]
    given = state(3, 2, torch.float64, batch=1)
    assert torch.autograd.gradcheck(lambda *x: causal_linear_attention(*x, *given)[0], inputs, fast_mode=True)
    assert not any(x.requires_grad for x in causal_linear_attention(*inputs)[1:])
