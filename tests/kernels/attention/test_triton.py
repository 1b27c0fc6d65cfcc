"""Causal linear attention's Triton kernels, those of training too, against
the literal loop and its gradients.
"""

import logging
from collections.abc import Iterator

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, NARROW, there  # isort: skip

from scanline.kernels import attention, gpu
from scanline.kernels.attention import chunked, reference, training_triton
from scanline.kernels.attention import triton as kernels
from scanline.kernels.attention.training_triton import causal_attention_of_projection
from scanline.kernels.attention.triton import causal_linear_attention
from scanline.kernels.feature_maps import elu_plus_one
from tests.support.close import BOUND, assert_close
from tests.support.kernels.heads import sequence, state, with_gradients

HEADS = 2  # of a projection
NAMES = ("y", "s", "z", "gradients of phi_q, phi_k and v")
# positions, widths of keys and values, and whether a state is
# given: around one and two chunks of 16
CASES = [(1, (8, 5), False), (15, (5, 8), True), (16, (1, 1), False), (33, (33, 17), True)]


def doubled(tensors: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    return [tensor.double() for tensor in tensors]


def assert_agrees(
    inputs: tuple[torch.Tensor, ...], given: tuple[torch.Tensor, ...] = (), ulps: int = 0
) -> None:
    """Fail where results or gradients are not the reference's, of narrow
    inputs within `ulps` of their type.
    """
    weights = torch.randn_like(inputs[2])
    bound = BOUND
    expected = with_gradients(
        reference.causal_linear_attention, doubled(inputs), doubled(given), weights.double()
    )
    ours = with_gradients(causal_linear_attention, inputs, given, weights)
    assert [x.dtype for x in ours[:3]] == [inputs[2].dtype, torch.float32, torch.float32]
    for name, right, result in zip(NAMES, expected, ours, strict=True):
        if ulps:
            bound = ulps * torch.finfo(inputs[2].dtype).eps * (4 if result is ours[3] else 1)
        assert_close(name, right, result, bound)


@pytest.mark.parametrize(("length", "widths", "continued"), CASES)
def test_results_and_gradients_agree_with_the_reference(
    length: int, widths: tuple[int, int], continued: bool
) -> None:
    assert_agrees(there(*sequence(length, *widths)), there(*state(*widths)) if continued else ())


@pytest.mark.parametrize(("length", "widths"), [(32, (5, 8)), (41, (17, 3))])
def test_segments_side_by_side_are_equal(
    length: int, widths: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LONG", "SEGMENT"):
        monkeypatch.setattr(kernels, name, 16)
    assert_agrees(there(*sequence(length, *widths, batch=1)), there(*state(*widths, batch=1)))


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_inputs_give_narrow_outputs_and_gradients_and_a_float32_state(
    dtype: torch.dtype,
) -> None:
    assert_agrees(there(*sequence(33, 32, 32, dtype, batch=1)), ulps=16)


def test_slices_of_one_projection_need_no_copy() -> None:
    (projected,) = there(torch.rand(2, 17, 3, 3, 8))
    slices = projected.permute(2, 0, 3, 1, 4).unbind(0)
    expected = causal_linear_attention(*(x.contiguous() for x in slices))
    assert all(map(torch.equal, expected, causal_linear_attention(*slices)))


def test_an_image_does_not_depend_on_the_batch() -> None:
    inputs = there(*sequence(17))
    together = causal_linear_attention(*inputs)
    alone = causal_linear_attention(*(x[1:] for x in inputs))
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


def of_projection(
    projected: torch.Tensor, key_width: int, weight: torch.Tensor | None
) -> torch.Tensor:
    """y [B, N, H M] by the literal loop, or, with weights, by torch in chunks."""
    both, v = projected.split(
        (2 * HEADS * key_width, projected.shape[2] - 2 * HEADS * key_width), dim=-1
    )
    q, k = elu_plus_one(both).unflatten(-1, (2, HEADS, key_width)).unbind(-3)
    q, k, v = (part.transpose(1, 2) for part in (q, k, v.unflatten(-1, (HEADS, -1))))
    if weight is None:
        y = reference.causal_linear_attention(q, k, v)[0]
    else:
        y = chunked.causal_linear_attention(q, k, v, weight=weight)[0]
    return y.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("length", "widths", "dtype"),
    [
        (1, (8, 5), torch.float32),
        (41, (5, 8), torch.float32),
        (70, (17, 3), torch.float32),
        (33, (32, 32), NARROW[0]),
    ],
)
def test_of_a_projection_results_and_the_gradient_are_those_of_the_reference(
    length: int,
    widths: tuple[int, int],
    dtype: torch.dtype,
    weighted: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training_triton, "SEGMENT", 32)
    monkeypatch.setattr(training_triton, "CHUNK", 16)
    projected = torch.randn(2, length, HEADS * (2 * widths[0] + widths[1])).to(dtype)
    g = torch.randn(2, length, HEADS * widths[1]).to(dtype)
    weight = 3 * torch.rand(2, length) if weighted else None
    right = projected.double().requires_grad_()
    y = of_projection(right, widths[0], None if weight is None else weight.double())
    (gradient,) = torch.autograd.grad(y, right, g.double())
    (ours, of_y), placed = there(projected, g), None if weight is None else weight.to(DEVICE)
    found = causal_attention_of_projection(ours.requires_grad_(), HEADS, widths[0], placed)
    (result,) = torch.autograd.grad(found, ours, of_y)
    assert found.dtype == result.dtype == dtype
    bound = BOUND if dtype == torch.float32 else 16 * torch.finfo(dtype).eps
    assert_close("y", y, found.cpu(), bound)
    assert_close("gradient", gradient, result.cpu(), 4 * bound)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A GPU that lacks nothing, so far as it is asked; without one, the interpreter."""
    attention._best_on_gpu.cache_clear()
    monkeypatch.setattr(gpu, "missing", lambda device: None)
    for name in ("LONG", "SEGMENT"):  # few positions, for the interpreter, and still all kernels
        monkeypatch.setattr(kernels, name, 16)
    yield monkeypatch
    attention._best_on_gpu.cache_clear()


def best(gradients: bool) -> object:
    return attention._best_on_gpu(torch.device(DEVICE), torch.float32, 8, 6, gradients)


@pytest.mark.parametrize("gradients", [False, True])
def test_kernels_that_run_are_used(card: pytest.MonkeyPatch, gradients: bool) -> None:
    with torch.inference_mode(not gradients):
        assert best(gradients) is kernels.causal_linear_attention


@pytest.mark.parametrize("kernel", ["walk_states", "walk_later_states"])
def test_kernels_that_do_not_fit_the_card_are_not_used_and_one_line_says_why(
    card: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kernel: str
) -> None:
    class TooLarge:
        def __getitem__(self, grid: tuple[int]) -> "TooLarge":
            return self

        def __call__(self, *arguments: object, **options: object) -> None:
            raise RuntimeError(
                "out of resource: shared memory, Required: 196608, Hardware limit: 101376."
            )

    card.setattr(kernels, kernel, TooLarge())
    with caplog.at_level(logging.WARNING):
        assert best(gradients=True) is chunked.causal_linear_attention
    assert caplog.messages == [
        "causal attention of 8 x 6, torch.float32, with gradients: by torch, which is slower (RuntimeError: out of"
        " resource: shared memory, Required: 196608, Hardware limit: 101376.)"
    ]


def test_a_card_that_lacks_something_is_not_tried(
    card: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    card.setattr(gpu, "missing", lambda device: "Triton is not installed")
    with caplog.at_level(logging.WARNING):
        assert best(gradients=False) is chunked.causal_linear_attention
    assert "Triton is not installed" in caplog.text
