import pytest
import torch

from scanline.kernels import BEYOND
from scanline.kernels.causal_conv import NEIGHBOURS, causal_conv, causal_conv_step
from scanline.kernels.causal_conv.reference import causal_conv as reference

NAN = float("nan")


def inputs(height: int, width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, height * width, 5, generator=random)
    conv_weight = torch.randn(NEIGHBOURS, 5, generator=random)
    return x, conv_weight, torch.stack([reference(image, conv_weight, width) for image in x])


@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 1), (2, 2), (4, 3), (3, 7)])
def test_many_pixels_are_the_reference_however_they_are_divided(height: int, width: int) -> None:
    x, conv_weight, expected = inputs(height, width)
    assert torch.allclose(causal_conv(x, conv_weight, 0, width), expected, atol=1e-6)
    for size in range(1, height * width + 1):
        # of an image before: nothing of it is read
        conv_state = torch.full((2, width + BEYOND, 5), NAN)
        split = enumerate(x.split(size, dim=1))
        parts = [causal_conv(part, conv_weight, i * size, width, conv_state) for i, part in split]
        assert torch.allclose(torch.cat(parts, dim=1), expected, atol=1e-6)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 1), (2, 2), (4, 3), (3, 7)])
def test_single_pixels_are_the_reference_at_places_of_their_own(height: int, width: int) -> None:
    x, conv_weight, expected = inputs(height, width)
    conv_state = torch.full((2, width + BEYOND, 5), NAN)
    ahead = height * width // 2  # of the second image before the first
    for pixel in range(ahead):
        causal_conv(x[1:, pixel : pixel + 1], conv_weight, pixel, width, conv_state[1:])
    for first in range(height * width - ahead):
        pixel = torch.tensor([first, first + ahead])
        y = causal_conv_step(x[[0, 1], pixel], conv_weight, pixel, width, conv_state)
        assert torch.allclose(y, expected[[0, 1], pixel], atol=1e-6)
