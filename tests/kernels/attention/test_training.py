"""Attention of a projection as training on a GPU computes it, against the literal loop and its gradients in float64."""

import pytest
import torch

from tests.support.kernels.gpu import DEVICE, NARROW, there  # isort: skip

from scanline.kernels.attention import chunked, reference, training_triton
from scanline.kernels.attention.training_triton import causal_attention_of_projection
from scanline.kernels.feature_maps import elu_plus_one
from tests.support.close import assert_close

HEADS = 2


def expected(projected: torch.Tensor, key_width: int, weight: torch.Tensor | None) -> torch.Tensor:
    """y [B, N, H M] by the literal loop, or, with weights, by torch in chunks."""
    both, v = projected.split((2 * HEADS * key_width, projected.shape[2] - 2 * HEADS * key_width), dim=-1)
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
    [(1, (8, 5), torch.float32), (41, (5, 8), torch.float32), (70, (17, 3), torch.float32), (33, (32, 32), NARROW[0])],
)
def test_results_and_the_gradient_are_those_of_the_reference(
    length: int, widths: tuple[int, int], dtype: torch.dtype, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_triton, "SEGMENT", 32)
    monkeypatch.setattr(training_triton, "CHUNK", 16)
    torch.manual_seed(0)
    projected = torch.randn(2, length, HEADS * (2 * widths[0] + widths[1])).to(dtype)
    g, weight = torch.randn(2, length, HEADS * widths[1]).to(dtype), 3 * torch.rand(2, length) if weighted else None
    right = projected.double().requires_grad_()
    y = expected(right, widths[0], None if weight is None else weight.double())
    (gradient,) = torch.autograd.grad(y, right, g.double())
    (ours, of_y), placed = there(projected, g), None if weight is None else weight.to(DEVICE)
    found = causal_attention_of_projection(ours.requires_grad_(), HEADS, widths[0], placed)
    (result,) = torch.autograd.grad(found, ours, of_y)
    assert found.dtype == result.dtype == dtype
    bound = 5e-5 if dtype == torch.float32 else 16 * torch.finfo(dtype).eps
    assert_close("y", y, found.cpu(), bound)
    assert_close("gradient", gradient, result.cpu(), 4 * bound)
