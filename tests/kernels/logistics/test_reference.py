"""Log-probabilities of the mixture: a distribution over the 256 bytes, the one that the formula says."""

import pytest
import torch

from scanline.kernels.logistics import Logistics
from scanline.kernels.logistics.reference import LOG_SCALE_FLOOR
from tests.support.close import assert_close
from tests.support.kernels.logistics import components, probabilities

BYTES = torch.arange(256, dtype=torch.uint8)


def log_probs(parameters: torch.Tensor, scale: str) -> torch.Tensor:
    return Logistics(5, scale).log_prob(parameters.expand(256, -1), BYTES.unsqueeze(1)).squeeze(1)


@pytest.mark.parametrize("scale", ["exp", "elu"])
def test_probabilities_are_those_of_the_formula_and_sum_to_one(scale: str) -> None:
    for seed in range(5):
        parameters = components(seed)
        assert_close(f"seed {seed}", probabilities(parameters, scale), log_probs(parameters, scale).exp())
    for raw in (-50.0, -7.0, -3.0, 0.0, 3.0, 20.0):
        parameters = components()
        parameters[10:] = raw
        assert abs(log_probs(parameters, scale).double().exp().sum() - 1) < 1e-4, raw


@pytest.mark.parametrize("scale", ["exp", "elu"])
@pytest.mark.parametrize("raw", [-50.0, 0.0, 50.0])
@pytest.mark.parametrize("mean", [-30.0, 0.0, 30.0])
def test_far_tails_have_finite_logarithms_and_gradients(mean: float, raw: float, scale: str) -> None:
    parameters = torch.tensor([0.0, mean, raw]).expand(256, -1).clone().requires_grad_()
    Logistics(1, scale).log_prob(parameters, BYTES.unsqueeze(1)).sum().backward()
    assert parameters.grad is not None
    assert parameters.grad.isfinite().all()


def test_scales_below_the_floor_are_the_floor_and_an_unknown_scale_is_refused() -> None:
    parameters = components()
    narrow, floor = parameters.clone(), parameters.clone()
    narrow[10:], floor[10:] = -9.0, LOG_SCALE_FLOOR
    assert torch.equal(log_probs(narrow, "exp"), log_probs(floor, "exp"))
    with pytest.raises(ValueError, match="unknown scale parametrisation 'softplus'; known: elu, exp"):
        log_probs(parameters, "softplus")


def test_rows_of_a_batch_are_each_alone() -> None:
    parameters = torch.stack([components(seed) for seed in range(6)]).view(2, 3, 15)
    values = torch.tensor([[0, 255, 3], [128, 7, 200]], dtype=torch.uint8)
    law = Logistics(5)
    together = law.log_prob(parameters, values.unsqueeze(-1)).squeeze(-1)
    alone = [[law.log_prob(parameters[i, j], values[i, j : j + 1]) for j in range(3)] for i in range(2)]
    assert_close("log-probabilities", torch.tensor(alone), together)
