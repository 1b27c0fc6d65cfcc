"""Anchors: what a mean is an offset from, at the borders and inside, for grey and colour."""

import pytest
import torch

from scanline.kernels.mixture.anchors import anchored, candidates
from tests.support import small_models
from tests.support.close import assert_close


def value(image: torch.Tensor, row: int, column: int, channel: int) -> float:
    return image[row, column, channel].item() / 127.5 - 1 if row >= 0 and column >= 0 else 0.0


def four(image: torch.Tensor, row: int, column: int, channel: int) -> torch.Tensor:
    left, above = value(image, row, column - 1, channel), value(image, row - 1, column, channel)
    plane = min(1.0, max(-1.0, left + above - value(image, row - 1, column - 1, channel)))
    return torch.tensor([left, above, plane, 0.0])


@pytest.mark.parametrize("channels", [1, 3])
def test_candidates_are_left_above_plane_and_zero(channels: int) -> None:
    config = small_models.config(channels=channels)
    images = torch.from_numpy(small_models.images(config, 2))
    values, errors = candidates(images, torch.arange(config.bytes).unsqueeze(0), config.width, config.channels)
    assert (errors is None) == (channels == 1)
    for b, image in enumerate(images.view(2, 4, 5, channels)):
        for place in range(config.bytes):
            at = place // (5 * channels), place // channels % 5
            channel = place % channels
            expected = torch.zeros(4)
            if channel:
                expected = value(image, *at, channel - 1) - four(image, *at, channel - 1)
            one = torch.ones(1)  # so that four zeros have a size to differ by
            found = torch.cat((values[b, place], one))
            assert_close(f"value of {place}", torch.cat((four(image, *at, channel), one)), found)
            if errors is not None:
                assert_close(f"errors by {place}", torch.cat((expected, one)), torch.cat((errors[b, place], one)))


def test_later_bytes_are_not_read() -> None:
    config = small_models.config(channels=3)
    images = torch.from_numpy(small_models.images(config, 1))
    place = torch.tensor([[37]])
    before = candidates(images, place, config.width, config.channels)
    images[:, 37:] = 0
    after = candidates(images, place, config.width, config.channels)
    assert torch.equal(after[0], before[0])
    assert after[1] is not None
    assert before[1] is not None
    assert torch.equal(after[1], before[1])


@pytest.mark.parametrize("colour", [False, True])
def test_a_sure_choice_is_the_anchor_and_all_else_stays(colour: bool) -> None:
    raw = torch.randn(2, 3, 3 * 5 + (5 if colour else 4))
    raw[..., 15:19] = torch.tensor([0.0, 100.0, 0.0, 0.0])
    if colour:
        raw[..., 19] = 100.0
    values, errors = torch.rand(2, 3, 4) * 2 - 1, torch.rand(2, 3, 4)
    result = anchored(raw, values, errors if colour else None, 5)
    anchor = values[..., 1:2] + (errors[..., 1:2] if colour else 0)
    assert torch.equal(result[..., :5], raw[..., :5])
    assert torch.equal(result[..., 10:], raw[..., 10:15])
    assert_close("means", raw[..., 5:10] + anchor, result[..., 5:10])
