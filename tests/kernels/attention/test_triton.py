"""Causal linear attention's Triton kernels against the literal loop: outputs, final state, gradients."""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, NARROW, there  # isort: skip

from scanline.kernels.attention import reference
from scanline.kernels.attention import triton as triton_attention
from scanline.kernels.attention.triton import causal_linear_attention
from tests.support.close import assert_close
from tests.support.kernels.gradients import gradients
from tests.support.kernels.heads import sequence, state

NAMES = ("y", "s", "z")
CASES = [(1, (8, 5)), (31, (5, 8)), (32, (1, 1)), (65, (33, 17))]  # positions, and widths of keys and values


def doubled(tensors: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [tensor.double() for tensor in tensors]


@pytest.mark.parametrize("continued", [False, True])
@pytest.mark.parametrize(("length", "widths"), CASES)
def test_results_and_gradients_agree_with_the_reference(length: int, widths: tuple[int, int], continued: bool) -> None:
    inputs, given = there(*sequence(length, *widths)), there(*state(*widths)) if continued else ()
    references = reference.causal_linear_attention(*doubled(inputs), *doubled(given))
    for name, expected, result in zip(NAMES, references, causal_linear_attention(*inputs, *given), strict=True):
        assert_close(name, expected, result)
    weights = torch.randn_like(inputs[2])
    expected = gradients(reference.causal_linear_attention, doubled(inputs), doubled(given), weights.double())
    assert_close("phi_q, phi_k, v", expected, gradients(causal_linear_attention, inputs, given, weights))


@pytest.mark.parametrize(("length", "widths"), [(41, (8, 5)), (64, (5, 8)), (130, (33, 17))])
def test_segments_side_by_side_give_the_same_results_and_gradients(
    length: int, widths: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, given = there(*sequence(length, *widths)), there(*state(*widths))
    weights = torch.randn_like(inputs[2])
    whole = causal_linear_attention(*inputs, *given)
    expected = gradients(causal_linear_attention, inputs, given, weights)
    monkeypatch.setattr(triton_attention, "LONG", 32)
    monkeypatch.setattr(triton_attention, "SEGMENT", 32)
    for name, one, several in zip(NAMES, whole, causal_linear_attention(*inputs, *given), strict=True):
        assert_close(name, one, several)
    assert_close("phi_q, phi_k, v", expected, gradients(causal_linear_attention, inputs, given, weights))


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_inputs_give_narrow_outputs_and_gradients_and_a_float32_state(dtype: torch.dtype) -> None:
    inputs = there(*sequence(65, 32, 32, dtype))
    references = reference.causal_linear_attention(*doubled(inputs))
    results = causal_linear_attention(*inputs)
    assert [x.dtype for x in results] == [dtype, torch.float32, torch.float32]
    for name, expected, result in zip(NAMES, references, results, strict=True):
        assert_close(name, expected, result, 16 * torch.finfo(dtype).eps)
    weights = torch.randn_like(inputs[2])
    expected = gradients(reference.causal_linear_attention, doubled(inputs), (), weights.double())
    ours = gradients(causal_linear_attention, inputs, (), weights)
    assert_close("phi_q, phi_k, v", expected, ours, 64 * torch.finfo(dtype).eps)


def test_slices_of_one_projection_need_no_copy() -> None:
    (projected,) = there(torch.rand(2, 33, 3, 3, 8))
    slices = projected.permute(2, 0, 3, 1, 4).unbind(0)
    expected = causal_linear_attention(*(x.contiguous() for x in slices))
    assert all(map(torch.equal, expected, causal_linear_attention(*slices)))


@pytest.mark.parametrize("cut", [1, 32, 33])
def test_whole_is_split_and_resumed(cut: int) -> None:
    inputs = there(*sequence(65))
    front, back = (tuple(x[:, :, part] for x in inputs) for part in (slice(cut), slice(cut, None)))
    y_front, s, z = causal_linear_attention(*front)
    y_back, s, z = causal_linear_attention(*back, s, z)
    whole = causal_linear_attention(*inputs)
    for name, expected, result in zip(NAMES, whole, (torch.cat((y_front, y_back), dim=2), s, z), strict=True):
        assert_close(name, expected, result)


def test_an_image_does_not_depend_on_the_batch() -> None:
    inputs = there(*sequence(40))
    together, alone = causal_linear_attention(*inputs), causal_linear_attention(*(x[1:] for x in inputs))
    assert all(torch.equal(x[1:], y) for x, y in zip(together, alone, strict=True))


def test_arguments_are_not_changed_and_the_returned_state_carries_no_gradient() -> None:
    inputs = there(*sequence(33), *state())
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
