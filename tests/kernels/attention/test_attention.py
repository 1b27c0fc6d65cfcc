"""Linear attention against the literal sums, at odd sizes: causal in chunks (eq.
13-15), and without a mask (eq. 4).
"""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from scanline.kernels.attention import causal_linear_attention, reference, with_second_keys
from scanline.kernels.attention.noncausal import linear_attention
from tests.support.close import assert_close
from tests.support.kernels.heads import SIZES, sequence, state, with_gradients

NAMES = ("y", "s", "z")
WIDTHS = [(8, 5), (5, 8), (1, 1), (32, 32)]


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("length", SIZES)
def test_agrees_with_the_reference_from_zero_and_from_a_given_state(
    length: int, widths: tuple[int, int]
) -> None:
    for given in ((), state(*widths)):
        inputs = (*sequence(length, *widths), *given)
        references = reference.causal_linear_attention(*(tensor.double() for tensor in inputs))
        for name, expected, result in zip(
            NAMES, references, causal_linear_attention(*inputs), strict=True
        ):
            assert_close(name, expected, result)


@pytest.mark.parametrize("length", SIZES)
def test_weighted_keys_agree_with_the_reference(length: int) -> None:
    for given in ((None, None), state()):
        inputs = sequence(length)
        weight = torch.randint(0, 14, (2, length)).float()
        wide = (x if x is None else x.double() for x in (*inputs, *given, weight))
        expected = reference.causal_linear_attention(*wide)
        y, *states = causal_linear_attention(*with_second_keys(*inputs, weight), *given)
        for found in (causal_linear_attention(*inputs, *given, weight), (y[:, :, ::2], *states)):
            for name, right, result in zip(NAMES, expected, found, strict=True):
                assert_close(name, right, result)


@pytest.mark.parametrize("given", ["nothing", "state", "state and weights"])
@pytest.mark.parametrize("length", SIZES)
def test_gradients_agree_with_float64_autograd_of_the_reference(length: int, given: str) -> None:
    inputs = sequence(length)
    counts = torch.randint(0, 14, (2, length)).float()
    more = {"nothing": (), "state": state(), "state and weights": (*state(), counts)}[given]
    weights = torch.randn_like(inputs[2])
    wide = [x.double() for x in inputs], [x.double() for x in more], weights.double()
    *_, expected = with_gradients(reference.causal_linear_attention, *wide)
    *_, ours = with_gradients(causal_linear_attention, inputs, more, weights)
    assert_close("phi_q, phi_k, v", expected, ours)


def test_the_returned_state_carries_no_gradient() -> None:
    assert not any(
        x.requires_grad
        for x in causal_linear_attention(*[x.requires_grad_() for x in sequence(66)])[1:]
    )


def test_arguments_are_not_changed_and_later_positions_change_nothing_before_them() -> None:
    q, k, v, *given = inputs = *sequence(130), *state()
    copies = [x.clone() for x in inputs]
    before, _, _ = causal_linear_attention(*inputs)
    assert all(map(torch.equal, inputs, copies))
    k[:, :, 100:], v[:, :, 100:] = 9.0, -9.0
    after, _, _ = causal_linear_attention(q, k, v, *given)
    assert torch.equal(before[:, :, :100], after[:, :, :100])


def test_keys_of_zero_give_zeros_and_no_nan() -> None:
    q, k, v = sequence(65)
    y, _, _ = causal_linear_attention(q, torch.zeros_like(k), v)
    assert torch.equal(y, torch.zeros_like(y))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_state_of_narrow_inputs_is_float32(dtype: torch.dtype) -> None:
    _, s, z = causal_linear_attention(*sequence(65, dtype=dtype))
    assert (s.dtype, z.dtype) == (torch.float32, torch.float32)


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
def test_shapes_that_do_not_fit_are_refused(keys: tuple[int, ...], values: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"queries \[2, 3, 9, 8\], keys .* and values .* do not fit"
    ):
        causal_linear_attention(torch.ones(2, 3, 9, 8), torch.ones(keys), torch.ones(values))
    queries = torch.ones(2, 3, 9, 8)
    right = torch.ones(2, 3, 9, 5)
    with pytest.raises(ValueError, match=r"weights \[2, 8\] do not fit keys \[2, 3, 9, 8\]"):
        causal_linear_attention(queries, queries, right, weight=torch.ones(2, 8))


@pytest.mark.parametrize("queries", [13, 7])
@pytest.mark.parametrize("widths", [(8, 5), (5, 8), (2, 1)])
def test_agrees_with_the_reference_and_its_gradients(widths: tuple[int, int], queries: int) -> None:
    inputs = [
        x.requires_grad_() for x in (sequence(queries, *widths)[0], *sequence(13, *widths)[1:])
    ]
    wide = [x.detach().double().requires_grad_() for x in inputs]
    expected = reference.linear_attention(*wide)
    result = linear_attention(*inputs)
    assert_close("y", expected, result)
    gradient = torch.randn_like(result)
    expected.backward(gradient.double())
    result.backward(gradient)
    for name, a, b in zip(("q", "k", "v"), wide, inputs, strict=True):
        assert_close(f"gradient of {name}", a.grad, b.grad)


@pytest.mark.parametrize("keys", [(2, 3, 13, 7), (2, 3, 12, 8)])
def test_keys_that_do_not_fit_are_refused(keys: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        linear_attention(torch.ones(2, 3, 13, 8), torch.ones(keys), torch.ones(2, 3, 13, 5))


WIDTH = 32


class Largest(TorchDispatchMode):
    """Remembers the most elements that any operation's result had."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for x in result if isinstance(result, list | tuple) else [result]:
            if isinstance(x, torch.Tensor):
                self.elements = max(self.elements, x.numel())
        return result


def stored(length: int) -> int:
    storages: dict[int, torch.UntypedStorage] = {}

    def keep(x: torch.Tensor) -> torch.Tensor:
        storages[x.untyped_storage().data_ptr()] = x.untyped_storage()
        return x

    inputs = [x.requires_grad_() for x in sequence(length, WIDTH, WIDTH, batch=1)]
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        causal_linear_attention(*inputs)[0].sum()
    return sum(storage.nbytes() for storage in storages.values())


def test_stored_bytes_grow_linearly_and_nothing_of_n_c_m_elements_exists_even_for_a_moment() -> (
    None
):
    short, middle, long = (stored(length) for length in (256, 512, 1024))
    assert long - middle == 2 * (middle - short) > 0
    inputs = [x.requires_grad_() for x in sequence(256, WIDTH, WIDTH, batch=1)]
    with Largest() as largest:
        causal_linear_attention(*inputs)[0].sum().backward()
    assert 0 < largest.elements < 3 * 256 * WIDTH * WIDTH
