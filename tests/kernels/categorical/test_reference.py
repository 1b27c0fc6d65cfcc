"""256 probabilities: those of the softmax, and samples that follow them."""

import pytest
import torch

from scanline.kernels.categorical import Categorical
from scanline.kernels.categorical.reference import guided
from tests.support.close import assert_close

DISTRIBUTION = Categorical()
BYTES = torch.arange(256, dtype=torch.uint8).unsqueeze(1)


def logits(seed: int = 0) -> torch.Tensor:
    return 3 * torch.randn(256, generator=torch.Generator().manual_seed(seed))


def test_probabilities_are_the_softmax_and_sum_to_one() -> None:
    found = DISTRIBUTION.log_prob(logits().expand(256, -1), BYTES).exp().squeeze(1)
    assert_close("probabilities", torch.softmax(logits().double(), dim=0), found)
    assert abs(found.double().sum() - 1) < 1e-5


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_samples_follow_the_probabilities(temperature: float) -> None:
    count = 60_000
    uniforms = ((torch.arange(count) + 0.5) / count).view(-1, 1, 1).expand(-1, 1, 2)
    nothing = torch.zeros(count, 1, dtype=torch.uint8)
    given = logits().expand(count, -1), uniforms, torch.full((count,), temperature)
    painted = DISTRIBUTION.sample(*given, nothing, nothing.bool())
    shares = torch.bincount(painted.flatten().long(), minlength=256).double() / count
    expected = torch.softmax(logits().double() / temperature, dim=0)
    # evenly spread uniforms: at most one count at either edge
    assert (shares - expected).abs().max() <= 2 / count


def test_known_bytes_are_kept_and_extreme_uniforms_stay_in_range() -> None:
    values = torch.tensor([[9], [9], [9]], dtype=torch.uint8)
    known = torch.tensor([[True], [False], [False]])
    uniforms = torch.tensor([0.5, 1e-7, 1 - 6e-8]).view(3, 1, 1).expand(-1, 1, 2)
    given = torch.full((3, 256), -200.0)
    given[:, 3], given[:, 255] = 0.0, 0.0
    painted = DISTRIBUTION.sample(given, uniforms, torch.ones(3), values, known)
    assert painted.flatten().tolist() == [9, 3, 255]


def test_mixing_with_guidance_1_gives_the_logits_with_the_class_and_0_those_without() -> None:
    with_class, without = torch.randn(2, 5, 256)
    assert_close("logits", with_class, guided(with_class, without, torch.ones(5)))
    assert torch.equal(guided(with_class, without, torch.zeros(5)), without)
