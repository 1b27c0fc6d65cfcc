"""Log-probabilities of the mixture: a distribution over the 256 bytes, the one that the formula says."""

import pytest
import torch

from scanline.kernels import mixture
from scanline.kernels.mixture.reference import LOG_SCALE_FLOOR
from tests.support.close import assert_close
from tests.support.logistics import components, probabilities

BYTES = torch.arange(256, dtype=torch.uint8)


def log_probs(parameters: torch.Tensor, scale: str) -> torch.Tensor:
    return mixture.log_prob(parameters.expand(256, -1), BYTES, scale)


@pytest.mark.parametrize("scale", ["exp", "elu"])
@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_the_formula(seed: int, scale: str) -> None:
    parameters = components(seed)
    assert_close("probabilities", probabilities(parameters, scale), log_probs(parameters, scale).exp())


@pytest.mark.parametrize("scale", ["exp", "elu"])
@pytest.mark.parametrize("raw", [-50.0, -7.0, -3.0, 0.0, 3.0, 20.0])
def test_probabilities_sum_to_one(raw: float, scale: str) -> None:
    parameters = components()
    parameters[10:] = raw
    assert abs(log_probs(parameters, scale).double().exp().sum() - 1) < 1e-4


@pytest.mark.parametrize("scale", ["exp", "elu"])
@pytest.mark.parametrize("raw", [-50.0, 0.0, 50.0])
@pytest.mark.parametrize("mean", [-30.0, 0.0, 30.0])
def test_far_tails_have_finite_logarithms_and_gradients(mean: float, raw: float, scale: str) -> None:
    parameters = torch.tensor([0.0, mean, raw]).expand(256, -1).clone().requires_grad_()
    mixture.log_prob(parameters, BYTES, scale).sum().backward()
    assert parameters.grad is not None
    assert parameters.grad.isfinite().all()


def test_scales_below_the_floor_are_the_floor() -> None:
    parameters = components()
    narrow, floor = parameters.clone(), parameters.clone()
    narrow[10:], floor[10:] = -9.0, LOG_SCALE_FLOOR
    assert torch.equal(log_probs(narrow, "exp"), log_probs(floor, "exp"))


def test_rows_of_a_batch_are_each_alone() -> None:
    parameters = torch.stack([components(seed) for seed in range(6)]).view(2, 3, 15)
    values = torch.tensor([[0, 255, 3], [128, 7, 200]], dtype=torch.uint8)
    together = mixture.log_prob(parameters, values, "exp")
    alone = [[mixture.log_prob(parameters[i, j], values[i, j], "exp") for j in range(3)] for i in range(2)]
    assert_close("log-probabilities", torch.tensor(alone), together)


def test_unknown_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown scale parametrisation 'softplus'; known: elu, exp"):
        mixture.log_prob(components(), BYTES[:1], "softplus")
