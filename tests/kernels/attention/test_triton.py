"""Causal linear attention's Triton kernels against the literal loop: outputs, final state, gradients."""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, NARROW, there  # isort: skip

from scanline.kernels.attention import reference
from scanline.kernels.attention import triton as triton_attention
from scanline.kernels.attention.triton import causal_linear_attention
from tests.support.close import BOUND, assert_close
from tests.support.kernels.heads import sequence, state, with_gradients

NAMES = ("y", "s", "z", "gradients of phi_q, phi_k and v")
# positions, widths of keys and values, and whether a state is given: around one and two chunks of 16
CASES = [(1, (8, 5), False), (15, (5, 8), True), (16, (1, 1), False), (33, (33, 17), True)]


def doubled(tensors: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [tensor.double() for tensor in tensors]


def assert_agrees(inputs: tuple[torch.Tensor, ...], given: tuple[torch.Tensor, ...] = (), ulps: int = 0) -> None:
    """Fail where results or gradients are not the reference's, of narrow inputs within `ulps` of their type."""
    weights, bound = torch.randn_like(inputs[2]), BOUND
    expected = with_gradients(reference.causal_linear_attention, doubled(inputs), doubled(given), weights.double())
    ours = with_gradients(causal_linear_attention, inputs, given, weights)
    assert [x.dtype for x in ours[:3]] == [inputs[2].dtype, torch.float32, torch.float32]
    for name, right, result in zip(NAMES, expected, ours, strict=True):
        if ulps:
            bound = ulps * torch.finfo(inputs[2].dtype).eps * (4 if result is ours[3] else 1)
        assert_close(name, right, result, bound)


@pytest.mark.parametrize(("length", "widths", "continued"), CASES)
def test_results_and_gradients_agree_with_the_reference(length: int, widths: tuple[int, int], continued: bool) -> None:
    assert_agrees(there(*sequence(length, *widths)), there(*state(*widths)) if continued else ())


@pytest.mark.parametrize(("length", "widths"), [(32, (5, 8)), (41, (17, 3))])
def test_segments_side_by_side_give_the_same_results_and_gradients(
    length: int, widths: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LONG", "SEGMENT"):
        monkeypatch.setattr(triton_attention, name, 16)
    assert_agrees(there(*sequence(length, *widths, batch=1)), there(*state(*widths, batch=1)))


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_inputs_give_narrow_outputs_and_gradients_and_a_float32_state(dtype: torch.dtype) -> None:
    assert_agrees(there(*sequence(33, 32, 32, dtype, batch=1)), ulps=16)


def test_slices_of_one_projection_need_no_copy() -> None:
    (projected,) = there(torch.rand(2, 17, 3, 3, 8))
    slices = projected.permute(2, 0, 3, 1, 4).unbind(0)
    expected = causal_linear_attention(*(x.contiguous() for x in slices))
    assert all(map(torch.equal, expected, causal_linear_attention(*slices)))


def test_an_image_does_not_depend_on_the_batch() -> None:
    inputs = there(*sequence(17))
    together, alone = causal_linear_attention(*inputs), causal_linear_attention(*(x[1:] for x in inputs))
    assert all(torch.equal(x[1:], y) for x, y in zip(together, alone, strict=True))


def test_arguments_are_not_changed_and_the_returned_state_carries_no_gradient() -> None:
    inputs = there(*sequence(17), *state())
    copies = [x.clone() for x in inputs]
    _, s, z = causal_linear_attention(*(x.requires_grad_() for x in inputs[:3]), *inputs[3:])
    assert not s.requires_grad
    assert not z.requires_grad
    assert all(map(torch.equal, inputs, copies))


def test_other_shapes_and_mixed_types_are_refused() -> None:
    q, k, v = (torch.ones(2, 3, 9, 8, device=DEVICE) for _ in range(3))
    with pytest.raises(ValueError, match="do not fit"):
        causal_linear_attention(q, k[:, :, 1:], v)
    with pytest.raises(ValueError, match=r"torch.float32, torch.float32 and torch.float16"):
        causal_linear_attention(q, k, v.half())
