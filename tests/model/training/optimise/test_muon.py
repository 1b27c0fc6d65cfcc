"""Muon: the same weights as torch's own, and orthogonalisation in float32 as well."""

import pytest
import torch

from scanline.model.training.optimise.muon import Muon, orthogonalised
from tests.support.close import assert_close

SHAPES = [(8, 20), (20, 8), (12, 12), (8, 20), (20, 8)]
RECIPE = {"lr": 0.01, "weight_decay": 0.1}


def moved(kind: type[torch.optim.Optimizer], **more: object) -> list[torch.Tensor]:
    """Return weights of several shapes after five updates with given gradients."""
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    optimiser = kind(weights, **RECIPE, **more)
    for _ in range(5):
        for weight in weights:
            weight.grad = torch.randn(weight.shape)
        optimiser.step()
    return [weight.detach() for weight in weights]


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch 2.9 brought Muon")
def test_in_bfloat16_it_is_torchs_own() -> None:
    expected = moved(torch.optim.Muon, adjust_lr_fn="match_rms_adamw")
    for shape, reference, result in zip(SHAPES, expected, moved(Muon, dtype=torch.bfloat16), strict=True):
        assert_close(f"{shape}", reference, result)


def test_float32_agrees_with_bfloat16_up_to_its_rounding() -> None:
    for shape, reference, result in zip(SHAPES, moved(Muon), moved(Muon, dtype=torch.bfloat16), strict=True):
        assert_close(f"{shape}", reference, result, bound=5e-3)


def test_matrices_of_one_shape_move_as_each_alone() -> None:
    weights = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    alone = [torch.nn.Parameter(weight.detach().clone()) for weight in weights]
    together, separate = Muon(weights, **RECIPE), [Muon([weight], **RECIPE) for weight in alone]
    for update in range(3):
        for number, (weight, other) in enumerate(zip(weights, alone, strict=True)):
            weight.grad = other.grad = None if number == update else torch.randn(weight.shape)
        for optimiser in (together, *separate):
            optimiser.step()
    for weight, other, optimiser in zip(weights, alone, separate, strict=True):
        assert_close("weight", other, weight, bound=1e-6)
        momenta = (
            state[matrix]["momentum_buffer"] for state, matrix in ((optimiser.state, other), (together.state, weight))
        )
        assert_close("momentum", *momenta, bound=1e-6)


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_singular_values_come_near_one_and_singular_vectors_stay(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 50
    (result,) = orthogonalised(matrix.unsqueeze(0), torch.float32)
    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
    inner = u.T @ result @ vh.T
    assert ((inner.diagonal() > 0.6) & (inner.diagonal() < 1.3)).all()
    assert_close("off the diagonal", torch.eye(len(inner)), inner - inner.diagonal().diag() + torch.eye(len(inner)))
    zeros = torch.zeros(1, *shape)
    assert torch.equal(orthogonalised(zeros, torch.float32), zeros)


def test_only_matrices_are_taken() -> None:
    with pytest.raises(ValueError, match=r"Muon moves matrices, not a tensor of shape \[3\]"):
        Muon([torch.nn.Parameter(torch.ones(3))], lr=1.0)
