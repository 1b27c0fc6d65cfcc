"""256 probabilities: those of the softmax, and samples that follow them."""

import pytest
import torch

from scanline.kernels.categorical import Categorical
from scanline.kernels.categorical.reference import guided
from tests.support.close import assert_close

LOGITS = 3 * torch.randn(256, generator=torch.Generator().manual_seed(0))


def test_probabilities_are_the_softmax():
    values = torch.arange(256, dtype=torch.uint8).unsqueeze(1)
    found = Categorical().log_prob(LOGITS.expand(256, -1), values).exp().squeeze(1)
    assert_close(
        "probabilities",
        torch.softmax(LOGITS.double(), dim=0),
        found,
    )


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_samples_follow_the_probabilities(temperature):
    count = 60_000
    evenly_spread = (torch.arange(count) + 0.5) / count
    values = torch.zeros(count, 1, dtype=torch.uint8)
    painted = Categorical().sample(
        LOGITS.expand(count, -1),
        evenly_spread.view(-1, 1, 1).expand(-1, 1, 2),
        torch.full((count,), temperature),
        values,
        values.bool(),
    )
    shares = painted.flatten().long().bincount(minlength=256).double() / count
    expected = torch.softmax(LOGITS.double() / temperature, dim=0)
    assert (shares - expected).abs().max() <= 2 / count  # one at either edge


def test_known_bytes_are_kept_and_extreme_uniforms_stay_in_range():
    values = torch.full((3, 1), 9, dtype=torch.uint8)
    known = torch.tensor([[True], [False], [False]])
    uniforms = torch.tensor([0.5, 1e-7, 1 - 6e-8]).view(3, 1, 1).expand(-1, 1, 2)
    logits = torch.full((3, 256), -200.0)
    logits[:, 3] = 0.0
    logits[:, 255] = 0.0
    painted = Categorical().sample(
        logits,
        uniforms,
        torch.ones(3),
        values,
        known,
    )
    assert painted.flatten().tolist() == [9, 3, 255]


def test_guidance_1_gives_the_logits_with_the_class_and_0_those_without():
    with_class, without = torch.randn(2, 5, 256)
    assert_close("logits", with_class, guided(with_class, without, torch.ones(5)))
    assert torch.equal(guided(with_class, without, torch.zeros(5)), without)
