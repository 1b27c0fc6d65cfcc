"""Causal linear attention (eq. 13-15): each implementation against the literal loop and its
gradients.
"""

from importlib import import_module

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from scanline.kernels.attention import reference, with_second_keys
from scanline.kernels.attention.chunked import causal_linear_attention
from tests.support.close import BOUND, assert_close
from tests.support.kernels.device import DEVICE
from tests.support.kernels.heads import sequence, state, with_gradients


@pytest.fixture(params=["chunked", "triton"])
def attention(request):
    if request.param == "triton":
        from tests.support.kernels.gpu import DEVICE  # noqa: F401 -- skips without Triton
    module = import_module(f"scanline.kernels.attention.{request.param}")
    return module.causal_linear_attention


def assert_agrees(attention, inputs, rest=(), bound=BOUND, of_gradients=BOUND):
    """Fail where results or gradients are not the reference's. `rest`: s, z and weights."""
    weights = torch.randn_like(inputs[2])
    expected = with_gradients(
        reference.causal_linear_attention,
        [x.double() for x in inputs],
        [x.double() for x in rest],
        weights.double(),
    )
    found = with_gradients(attention, inputs, rest, weights)
    assert found["y"].dtype == inputs[2].dtype
    assert found["s"].dtype == found["z"].dtype == torch.float32
    for name, result in found.items():
        assert_close(name, expected[name], result, of_gradients if name == "gradients" else bound)


@pytest.mark.parametrize(
    # around one and two chunks of 16, and of 64
    ("length", "widths", "continued"),
    [
        (1, (8, 5), False),
        (15, (5, 8), True),
        (16, (1, 1), False),
        (33, (33, 17), True),
        (63, (8, 5), False),
        (64, (32, 32), True),
        (65, (5, 8), False),
        (130, (8, 5), True),
    ],
)
def test_results_and_gradients_agree_with_the_reference(attention, length, widths, continued):
    given = state(*widths) if continued else ()
    assert_agrees(attention, sequence(length, *widths), given)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_inputs_give_narrow_outputs_and_a_float32_state(attention, dtype):
    if dtype == torch.bfloat16 and "triton" in attention.__module__ and DEVICE == "cpu":
        pytest.skip("Triton's interpreter cannot multiply bfloat16")
    eps = torch.finfo(dtype).eps
    inputs = sequence(33, 32, 32, dtype, batch=1)
    assert_agrees(attention, inputs, bound=16 * eps, of_gradients=64 * eps)


@pytest.mark.parametrize("length", [1, 65, 130])
def test_weighted_keys_agree_with_the_reference(attention, length):
    inputs = sequence(length)
    weight = torch.randint(0, 14, (2, length), device=DEVICE).float()
    assert_agrees(causal_linear_attention, inputs, (*state(), weight))
    y, s, z = attention(*with_second_keys(*inputs, weight))
    expected = causal_linear_attention(*inputs, weight=weight)
    for reference_, result in zip(expected, (y[:, :, ::2], s, z), strict=True):
        assert_close("second keys", reference_, result)


def test_an_image_depends_on_no_other_and_no_position_on_later_ones(attention):
    q, k, v = sequence(33)
    together, _, _ = attention(q, k, v)
    alone, _, _ = attention(q[1:], k[1:], v[1:])
    assert torch.equal(together[1:], alone)
    k[:, :, 20:] = 9.0
    v[:, :, 20:] = -9.0
    after, _, _ = attention(q, k, v)
    assert torch.equal(together[:, :, :20], after[:, :, :20])


def test_arguments_are_not_changed_and_the_state_carries_no_gradient(attention):
    inputs = [*sequence(17), *state()]
    copies = [x.clone() for x in inputs]
    for leaf in inputs[:3]:
        leaf.requires_grad_()
    _, s, z = attention(*inputs)
    assert not s.requires_grad
    assert not z.requires_grad
    for copy, now in zip(copies, inputs, strict=True):
        assert torch.equal(copy, now)


def test_keys_of_zero_give_zeros_and_no_nan(attention):
    q, k, v = sequence(65)
    y, _, _ = attention(q, torch.zeros_like(k), v)
    assert torch.equal(y, torch.zeros_like(y))


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        ((2, 3, 9, 7), (2, 3, 9, 5)),  # another width than the queries
        ((2, 3, 8, 8), (2, 3, 9, 5)),  # shorter than the queries
        ((2, 3, 9, 8), (2, 3, 8, 5)),
        ((2, 3, 9, 8), (2, 1, 9, 5)),  # fewer heads
        ((2, 3, 9, 8), (1, 3, 9, 5)),  # fewer images
    ],
)
def test_shapes_that_do_not_fit_are_refused(attention, keys, values):
    with pytest.raises(ValueError, match="do not fit"):
        attention(torch.ones(2, 3, 9, 8), torch.ones(keys), torch.ones(values))


def test_weights_that_do_not_fit_are_refused():
    q, k, v = sequence(9)
    with pytest.raises(ValueError, match=r"weights \[2, 8\] do not fit keys \[2, 3, 9, 8\]"):
        causal_linear_attention(q, k, v, weight=torch.ones(2, 8))


class Largest(TorchDispatchMode):
    """Remembers the most elements that any operation's result had."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, list | tuple) else [result]:
            if isinstance(x, torch.Tensor):
                self.elements = max(self.elements, x.numel())
        return result


def test_nothing_of_n_n_or_n_c_m_elements_exists_even_for_a_moment():
    length = 4096
    width = 32
    inputs = [x.requires_grad_() for x in sequence(length, width, width, batch=1)]
    with Largest() as largest:
        causal_linear_attention(*inputs)[0].sum().backward()
    assert 0 < largest.elements < 3 * length * width * width
