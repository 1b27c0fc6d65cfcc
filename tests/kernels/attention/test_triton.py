"""Causal linear attention's Triton kernels: sequences in segments, training's operator on a whole
projection, and when they are used. test_attention.py has what they share with torch.
"""

import logging

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


@pytest.mark.parametrize(("length", "widths"), [(32, (5, 8)), (41, (17, 3))])
def test_segments_side_by_side_are_equal(length, widths, monkeypatch):
    inputs = sequence(length, *widths, batch=1)
    given = state(*widths, batch=1)
    weights = torch.randn_like(inputs[2])
    expected = with_gradients(causal_linear_attention, inputs, given, weights)
    monkeypatch.setattr(kernels, "LONG", 16)
    monkeypatch.setattr(kernels, "SEGMENT", 16)
    found = with_gradients(causal_linear_attention, inputs, given, weights)
    for name, result in found.items():
        assert_close(name, expected[name], result)


def test_slices_of_one_projection_need_no_copy():
    (projected,) = there(torch.rand(2, 17, 3, 3, 8))
    slices = projected.permute(2, 0, 3, 1, 4).unbind(0)
    expected = causal_linear_attention(*(x.contiguous() for x in slices))
    assert all(map(torch.equal, expected, causal_linear_attention(*slices)))


def test_mixed_types_are_refused():
    q, k, v = sequence(9)
    with pytest.raises(ValueError, match=r"torch.float32, torch.float32 and torch.float16"):
        causal_linear_attention(q, k, v.half())


def of_projection(projected, key_width, weight):
    """y [B, N, H M] by the literal loop."""
    queries_and_keys = 2 * HEADS * key_width
    v = projected[..., queries_and_keys:].unflatten(-1, (HEADS, -1))
    both = elu_plus_one(projected[..., :queries_and_keys])
    q, k = both.unflatten(-1, (2, HEADS, key_width)).unbind(-3)
    heads = (part.transpose(1, 2) for part in (q, k, v))
    y, _, _ = reference.causal_linear_attention(*heads, weight=weight)
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
    length,
    widths,
    dtype,
    weighted,
    monkeypatch,
):
    monkeypatch.setattr(training_triton, "SEGMENT", 32)
    monkeypatch.setattr(training_triton, "CHUNK", 16)
    key_width, value_width = widths
    projected, of_y = there(
        torch.randn(2, length, HEADS * (2 * key_width + value_width)).to(dtype),
        torch.randn(2, length, HEADS * value_width).to(dtype),
    )
    ones = torch.ones(2, length, device=DEVICE)
    weight = 3 * torch.rand_like(ones) if weighted else ones
    wide = projected.double().requires_grad_()
    expected = of_projection(wide, key_width, weight.double())
    (expected_gradient,) = torch.autograd.grad(expected, wide, of_y.double())
    y = causal_attention_of_projection(
        projected.requires_grad_(), HEADS, key_width, weight if weighted else None
    )
    (gradient,) = torch.autograd.grad(y, projected, of_y)
    assert y.dtype == gradient.dtype == dtype
    bound = BOUND if dtype == torch.float32 else 16 * torch.finfo(dtype).eps
    assert_close("y", expected, y, bound)
    assert_close("gradient", expected_gradient, gradient, 4 * bound)


@pytest.fixture
def card(monkeypatch):
    """A GPU that lacks nothing, so far as it is asked; without one, the interpreter."""
    attention._best_on_gpu.cache_clear()
    monkeypatch.setattr(gpu, "missing", lambda device: None)
    for name in ("LONG", "SEGMENT"):  # few positions, for the interpreter, and still all kernels
        monkeypatch.setattr(kernels, name, 16)
    yield monkeypatch
    attention._best_on_gpu.cache_clear()


def best(gradients):
    return attention._best_on_gpu(torch.device(DEVICE), torch.float32, 8, 6, gradients)


@pytest.mark.parametrize("gradients", [False, True])
def test_kernels_that_run_are_used(card, gradients):
    with torch.inference_mode(not gradients):
        assert best(gradients) is causal_linear_attention


@pytest.mark.parametrize("kernel", ["walk_states", "walk_later_states"])
def test_kernels_that_do_not_fit_the_card_are_not_used_and_one_line_says_why(card, caplog, kernel):
    class TooLarge:
        def __getitem__(self, grid):
            return self

        def __call__(self, *arguments, **options):
            raise RuntimeError("out of resource: shared memory, Required: 196608")

    card.setattr(kernels, kernel, TooLarge())
    with caplog.at_level(logging.WARNING):
        assert best(gradients=True) is chunked.causal_linear_attention
    assert caplog.messages == [
        "causal attention of 8 x 6, torch.float32, with gradients: by torch, which is slower"
        " (RuntimeError: out of resource: shared memory, Required: 196608)"
    ]


def test_a_card_that_lacks_something_is_not_tried(card, caplog):
    card.setattr(gpu, "missing", lambda device: "Triton is not installed")
    with caplog.at_level(logging.WARNING):
        assert best(gradients=False) is chunked.causal_linear_attention
    assert "Triton is not installed" in caplog.text
